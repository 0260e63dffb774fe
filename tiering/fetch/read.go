package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/broker/storage"
	"github.com/firnlog/firn/internal/kafka"
	"github.com/firnlog/firn/metastore/command"
	"github.com/firnlog/firn/tiering/manifest"
)

// read finds the batches that answer a request. Where a segment ends without a batch at or after the offset, the next
// one goes on, and after the last remote one the local log does: a reader always gets on (TI-04).
func (r *Reader) read(
	ctx context.Context, tp kafka.TopicIDPartition, req storage.RemoteReadRequest, admitted bool,
) (result found, err error) {
	offset := req.Offset
	err = r.withTree(ctx, tp, func(tree *manifest.Tree) error {
		for {
			if offset >= req.UpTo {
				result = empty(req)
				return nil
			}
			entry, err := find(ctx, tree, offset)
			if errors.Is(err, errPastEnd) && offset > req.Offset {
				result.RemoteReadResult, err = r.readLocal(tp, req, offset)
				return err
			}
			if err != nil {
				return err
			}
			result, err = r.readSegment(ctx, segmentAt{tp, tree, entry}, offset, req, admitted)
			if !errors.Is(err, errHole) {
				return err
			}
			offset = entry.EndOffset
		}
	})
	return result, err
}

func empty(req storage.RemoteReadRequest) found {
	return found{RemoteReadResult: nothing(req)}
}

func nothing(req storage.RemoteReadRequest) storage.RemoteReadResult {
	return storage.RemoteReadResult{FirstOffset: req.Offset, NextOffset: req.Offset, Release: func() {}}
}

var (
	// errHole: the segment answers for the offset but has no batch at or after it.
	errHole = errors.New("no batch at or after the offset")
	// errPastEnd: the offset is not remote.
	errPastEnd = errors.New("the offset is past the remote end")
)

// segmentAt is a segment in its manifest.
type segmentAt struct {
	tp    kafka.TopicIDPartition
	tree  *manifest.Tree
	entry command.SegmentEntry
}

func (r *Reader) readSegment(
	ctx context.Context, at segmentAt, offset int64, req storage.RemoteReadRequest, admitted bool,
) (found, error) {
	o, err := r.open(ctx, segmentOf(at.tree, at.entry))
	if err != nil {
		return found{}, err
	}
	var kept *chunk
	defer func() { o.close(kept) }()
	first, err := o.seek(ctx, r.position(at.tp, o, offset), offset)
	if err != nil {
		return found{}, err
	}
	if first.header.NextOffset() > req.UpTo || first.size > int64(req.MaxBytes) && !req.AtLeastOne {
		return empty(req), nil
	}
	last, err := o.extend(ctx, first, req)
	if err != nil {
		return found{}, err
	}
	result, in, err := o.answer(ctx, first.position, last.end()-first.position, admitted)
	if err != nil {
		return found{}, err
	}
	kept = in
	result.FirstOffset, result.NextOffset = first.header.BaseOffset(), last.header.NextOffset()
	for _, transaction := range o.tail.Aborted(offset, result.NextOffset) {
		result.Aborted = append(result.Aborted, storage.AbortedTransaction(transaction))
	}
	r.readOn(at, o, answered{
		offset: req.Offset, next: result.NextOffset, begin: first.position, end: last.end(),
	})
	return result, nil
}

// position is where to look for an offset. The index leads to the batch before it, or farther, which may lie in a chunk
// that a reader in order has done with: for him it is known where he is.
func (r *Reader) position(tp kafka.TopicIDPartition, o *object, offset int64) int64 {
	if position, known := r.ahead.position(tp, o.entry.UploadID, offset); known {
		return position
	}
	return o.tail.Position(offset)
}

// seek finds the first batch that ends after an offset, from a position on at which a batch begins.
func (o *object) seek(ctx context.Context, position, offset int64) (batchAt, error) {
	for position < o.tail.DataBytes {
		at, err := o.header(ctx, position)
		if err != nil {
			return at, err
		}
		if at.header.NextOffset() > offset {
			return at, nil
		}
		position = at.end()
	}
	return batchAt{}, fmt.Errorf("offset %d in %s: %w", offset, o.key, errHole)
}

// extend finds the last batch that an answer may have which begins with first. It does not wait for more chunks: what
// is there is answered now. An answer has no more than a chunk's worth, so that what readers hold is bounded.
func (o *object) extend(ctx context.Context, first batchAt, req storage.RemoteReadRequest) (batchAt, error) {
	end := min(first.position+min(int64(req.MaxBytes), o.chunkBytes), o.tail.DataBytes)
	last := first
	if err := o.load(ctx, first.position, first.size); err != nil {
		return last, err
	}
	for {
		position := last.end()
		if position >= end || !o.has(position, min(o.tail.DataBytes-position, record.HeaderSize)) {
			return last, nil
		}
		next, err := o.header(ctx, position)
		if err != nil {
			return last, err
		}
		if next.end() > end || next.header.NextOffset() > req.UpTo || !o.has(position, next.size) {
			return last, nil
		}
		last = next
	}
}

// readLocal reads on in the local log, where the remote part has ended in a hole. The replica has sent the reader here
// because its offset is not local; the next one with a batch is.
func (r *Reader) readLocal(tp kafka.TopicIDPartition, req storage.RemoteReadRequest, offset int64) (
	storage.RemoteReadResult, error,
) {
	log, err := r.options.Local(tp)
	if err != nil {
		return storage.RemoteReadResult{}, err
	}
	local, err := log.Read(storage.ReadRequest{
		Offset: offset, MaxBytes: min(req.MaxBytes, maxChunkBytes), AtLeastOne: req.AtLeastOne, UpTo: req.UpTo,
	})
	if err != nil {
		return storage.RemoteReadResult{}, err
	}
	if local.Size == 0 {
		return nothing(req), nil
	}
	transactions, err := log.AbortedTransactions(offset, local.NextOffset)
	if err == nil {
		err = local.Region.Load()
	}
	if err != nil {
		local.Region.Release()
		return storage.RemoteReadResult{}, err
	}
	return storage.RemoteReadResult{
		Region: local.Region.Unheld(), Release: local.Region.Release,
		FirstOffset: local.FirstOffset, NextOffset: local.NextOffset, Aborted: transactions,
	}, nil
}

func noEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
