package cache

import (
	"errors"
	"hash/crc32"
	"syscall"
)

// Reservation is room for a file. Either Fill or Cancel is called, once.
type Reservation struct {
	cache *Cache
	id    ID
	size  int64
}

// Reserve tells the cache that something is about to be downloaded, and gets room if it is to be kept; nil if not. It
// is kept if it was downloaded before, and not so long ago that all of what it would displace has been wanted since: a
// scan of a long log displaces nothing, and is not written to the disk at all.
func (c *Cache) Reserve(id ID, size int64) *Reservation {
	if c == nil || c.options.Bytes == 0 {
		return nil
	}
	before, again := c.note(id)
	if !again || !c.roomOnDisk(size) {
		return nil
	}
	displaced, ok := c.makeRoom(id, charge(size), before)
	for _, e := range displaced {
		c.metrics.evictions.Inc()
		c.remove(e)
	}
	if !ok {
		return nil
	}
	return &Reservation{cache: c, id: id, size: size}
}

// note takes down that something is wanted, and tells when it was wanted before.
func (c *Cache) note(id ID) (before int64, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	before, again = c.asked.note(id, c.clock)
	return before, again && c.ready && !c.isOff()
}

// roomOnDisk tells whether the disk has room for so many bytes beside what has to be left.
func (c *Cache) roomOnDisk(size int64) bool {
	space, err := c.options.FS.Space(c.options.Dir)
	if err != nil {
		c.failed("ask for free space", err)
		return false
	}
	return space.FreeBytes-size >= c.options.LeaveBytes
}

// makeRoom reserves bytes and lists the files that have to go for it: those that were wanted last before the newcomer
// was, the first of them first. Files in use stay.
func (c *Cache) makeRoom(id ID, bytes, before int64) (displaced []*entry, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[id] != nil || c.filling[id] || len(c.filling) == maxFills {
		return nil, false
	}
	freed := int64(0)
	for at := c.used.Front(); at != nil && c.bytes-freed+bytes > c.options.Bytes; at = at.Next() {
		e := at.Value.(*entry)
		if e.lastUse >= before {
			break
		}
		if e.refs == 0 {
			displaced = append(displaced, e)
			freed += charge(e.size)
		}
	}
	if c.bytes-freed+bytes > c.options.Bytes {
		return nil, false
	}
	for _, e := range displaced {
		c.forget(e)
	}
	c.filling[id] = true
	c.bytes += bytes
	c.metrics.bytes.Set(float64(c.bytes))
	return displaced, true
}

// Cancel gives the room back.
func (r *Reservation) Cancel() {
	if r == nil {
		return
	}
	c := r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.filling, r.id)
	c.bytes -= charge(r.size)
	c.metrics.bytes.Set(float64(c.bytes))
}

// Fill writes the file and tells whether it is there. It waits for the disk: what the system has taken and cannot write
// must not be answered later.
func (r *Reservation) Fill(data []byte) bool {
	if r == nil {
		return false
	}
	c := r.cache
	number, err := c.numbers.take()
	if err != nil {
		r.Cancel()
		c.failed("number a file", err)
		return false
	}
	next := &entry{
		id: r.id, number: number, size: int64(len(data)), sum: crc32.Checksum(data, castagnoli), verified: true,
	}
	err = c.write(next, data)
	if err == nil {
		err = c.options.Store.Set(keyOf(next.id), next.encode())
	}
	if err != nil {
		c.failed("write a file", err)
		c.undo(next)
		if errors.Is(err, syscall.ENOSPC) {
			c.relieve()
		}
		return false
	}
	c.metrics.fills.Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.filling, r.id)
	c.clock++
	next.lastUse = c.clock
	next.place = c.used.PushBack(next)
	c.known[next.id] = next
	return true
}

func (c *Cache) write(next *entry, data []byte) error {
	file, err := c.options.FS.Create(c.file(next.number))
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	if err == nil {
		err = file.SyncData()
	}
	return errors.Join(err, file.Close())
}

// undo removes what was written of a file, which was never on the list.
func (c *Cache) undo(next *entry) {
	c.mu.Lock()
	delete(c.filling, next.id)
	c.mu.Unlock()
	c.remove(next)

}

// relieve removes files as long as the disk has less room than has to be left. Without files there may be no folder.
func (c *Cache) relieve() {
	c.mu.Lock()
	bytes := c.bytes
	c.isOff() // for the metric
	c.mu.Unlock()
	if bytes == 0 {
		return
	}
	space, err := c.options.FS.Space(c.options.Dir)
	if err != nil {
		c.failed("ask for free space", err)
		return
	}
	for _, e := range c.oldest(c.options.LeaveBytes - space.FreeBytes) {
		c.metrics.evictions.Inc()
		c.remove(e)
	}
}

// oldest takes files that have so many bytes together out of the list, the least recently used ones. Files in use stay.
func (c *Cache) oldest(bytes int64) (taken []*entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.used.Front(); at != nil && bytes > 0; {
		e, next := at.Value.(*entry), at.Next()
		if e.refs == 0 {
			c.forget(e)
			taken = append(taken, e)
			bytes -= e.size
		}
		at = next
	}
	return taken
}
