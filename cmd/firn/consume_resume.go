package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/firnlog/firn/internal/vfs"
	"github.com/firnlog/firn/tiering/bulk"
)

// bookmarkInterval is how often a reading notes how far it has come: what was printed since comes again after a kill.
const bookmarkInterval = 2 * time.Second

// bookmark is how far a reading has come, in a file where there is one.
type bookmark struct {
	file  string // empty: nobody wants to know
	found bool   // the file was there at the start
	bookmarkJSON
	saved time.Time
}

// bookmarkJSON is the file of --resume.
type bookmarkJSON struct {
	Cluster string          `json:"cluster"` // hexadecimal
	Topic   string          `json:"topic"`
	TopicID string          `json:"topic_id"`
	Next    map[int32]int64 `json:"next"` // by partition: the first offset that was not printed
}

// openBookmark reads the file, if there is one.
func openBookmark(file string) (*bookmark, error) {
	b := &bookmark{file: file}
	if file == "" {
		return b, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &b.bookmarkJSON)
	}
	if err == nil && b.TopicID == "" {
		err = errors.New("it names no topic")
	}
	if err != nil {
		return nil, fmt.Errorf("--resume %s is not what an earlier reading has written, so give another file: %w", file, err)
	}
	b.found = true
	return b, nil
}

// next is where a partition goes on, if the file tells.
func (b *bookmark) next(snapshot *bulk.Snapshot, partition int32) (int64, bool) {
	if !b.found || b.TopicID != snapshot.TopicID.String() {
		return 0, false
	}
	next, known := b.Next[partition]
	return next, known
}

// begin takes on what is read now. Partitions that are not read keep what the file says.
func (b *bookmark) begin(snapshot *bulk.Snapshot, spans map[int32]span) error {
	if b.file == "" {
		return nil
	}
	id := snapshot.TopicID.String()
	if b.found && b.TopicID != id {
		return fmt.Errorf("--resume %s belongs to topic %s with id %s, not to topic %s with id %s: give another file",
			b.file, b.Topic, b.TopicID, snapshot.Topic, id)
	}
	b.Cluster, b.Topic, b.TopicID = snapshot.ClusterID.Hex(), snapshot.Topic, id
	if b.Next == nil {
		b.Next = make(map[int32]int64)
	}
	for partition, wanted := range spans {
		b.Next[partition] = wanted.start
	}
	return b.write()
}

// note says that the output has everything of a partition below next.
func (b *bookmark) note(partition int32, next int64) {
	if b.file != "" {
		b.Next[partition] = next
	}
}

func (b *bookmark) saveIfDue(output io.Writer, now time.Time) error {
	if now.Sub(b.saved) < bookmarkInterval {
		return nil
	}
	b.saved = now
	return b.save(output)
}

// save writes the file. Where the output is a file it is made durable first, so that a power cut loses nothing that the
// bookmark says was printed.
func (b *bookmark) save(output io.Writer) error {
	if b.file == "" {
		return nil
	}
	if file, ok := output.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			if err := file.Sync(); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
	}
	return b.write()
}

func (b *bookmark) write() error {
	data, err := json.MarshalIndent(b.bookmarkJSON, "", "  ")
	if err == nil {
		err = vfs.WriteFileAtomic(vfs.OS(), b.file, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("--resume %s: %w", b.file, err)
	}
	return nil
}
