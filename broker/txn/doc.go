// Package txn hands out producer ids. The transaction coordinator (epochs, two-phase commit, markers) joins it here
// when transactions land; until then transactional producers are refused by whoever meets them.
package txn
