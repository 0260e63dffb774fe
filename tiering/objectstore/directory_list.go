package objectstore

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// List implements Bucket. It reads one folder's names at a time, and looks at files only where it is going to visit.
func (d *Directory) List(ctx context.Context, prefix, startAfter string, visit func(ObjectInfo) error) error {
	folder := "" // the deepest one that holds everything with this prefix
	if slash := strings.LastIndexByte(prefix, '/'); slash >= 0 {
		folder = prefix[:slash]
	}
	if folder != "" && CheckKey(folder) != nil {
		return nil // no key is below it
	}
	l := lister{d: d, prefix: prefix, startAfter: startAfter, visit: visit}
	if err := l.list(ctx, folder); err != nil {
		if l.visitErr != nil {
			return ignoreSkipAll(l.visitErr)
		}
		return d.failure(OpList, prefix, err)
	}
	return nil
}

type lister struct {
	d          *Directory
	prefix     string
	startAfter string
	visit      func(ObjectInfo) error
	visitErr   error // what visit returned, if that is why the listing ended
}

// entry is a name in a folder as the listing sees it.
type entry struct {
	key  string
	info fs.FileInfo
}

// sortKey is what orders entries as their keys are ordered: everything below a folder begins with its name and a slash.
func (e entry) sortKey() string {
	if e.info.IsDir() {
		return e.key + "/"
	}
	return e.key
}

func (l *lister) list(ctx context.Context, folder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names, err := l.d.fs.List(l.d.path(folder))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil // removed meanwhile, or never there
	}
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !l.wants(join(folder, name)) })
	for len(names) > 0 {
		group := names[:groupSize(names)]
		names = names[len(group):]
		if err := l.listGroup(ctx, folder, group); err != nil {
			return err
		}
	}
	return nil
}

// wants tells whether an object with this key, or one below it, may have to be visited.
func (l *lister) wants(key string) bool {
	below := key + "/"
	if !strings.HasPrefix(key, l.prefix) && !strings.HasPrefix(l.prefix, below) {
		return false
	}
	if below < l.startAfter && !strings.HasPrefix(l.startAfter, below) {
		return false
	}
	return CheckKey(key) == nil // nothing else was put by us
}

// groupSize counts the names at the front of a sorted list whose order as keys is open before it is known which of them
// are folders: a name, and those that continue it with a byte below the slash.
func groupSize(names []string) int {
	n := 1
	for n < len(names) && strings.HasPrefix(names[n], names[0]) && names[n][len(names[0])] < '/' {
		n++
	}
	return n
}

func (l *lister) listGroup(ctx context.Context, folder string, names []string) error {
	entries := make([]entry, 0, len(names))
	for _, name := range names {
		key := join(folder, name)
		info, err := l.d.fs.Stat(l.d.path(key))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		entries = append(entries, entry{key: key, info: info})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	for _, e := range entries {
		if err := l.listEntry(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) listEntry(ctx context.Context, e entry) error {
	if e.info.IsDir() {
		return l.list(ctx, e.key)
	}
	if !strings.HasPrefix(e.key, l.prefix) || e.key <= l.startAfter {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.visitErr = l.visit(ObjectInfo{Key: e.key, Size: e.info.Size()})
	return l.visitErr
}

func join(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}
