// Package gate bounds how many do a thing at a time, where the bound may change while they do it. The server counts
// connections with it. It knows no order among those who wait, and never turns out who is in.
package gate
