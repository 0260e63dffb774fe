// Package objectstoretest is the acceptance test of object stores: Run holds any objectstore.Bucket to what the
// interface promises. Tests of the implementations call it, against memory, folders and real servers; nothing else
// does.
package objectstoretest
