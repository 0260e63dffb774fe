package server

import (
	"context"
	"errors"
)

// errNoAnswer is a handler's mistake: a reply that was to be an answer had none.
var errNoAnswer = errors.New("the handler made no answer")

// writeReplies is the connection's writer: it waits for each queued reply in turn and sends it. Replies that are ready
// together are sent together.
func (c *connection) writeReplies() {
	defer close(c.writer)
	var held *pendingReply // taken from the queue, but not ready when its turn might have come
	batch := make([]pendingReply, 0, c.server.config.MaxInFlightReplies)
	for {
		first, ok := c.nextReply(held)
		if !ok {
			return
		}
		c.await(&first)
		batch, held = c.readyReplies(append(batch[:0], first))
		err := c.send(batch)
		c.owed.Add(-int64(len(batch)))
		clear(batch)
		if err != nil {
			c.abandon(held, err)
			return
		}
	}
}

// nextReply returns the next reply in order, without waiting for it to be ready; false at the end of the connection.
func (c *connection) nextReply(held *pendingReply) (pendingReply, bool) {
	if held != nil {
		return *held, true
	}
	reply, ok := <-c.queue
	return reply, ok
}

// readyReplies takes what follows in the queue and is ready too. The first that is not ready is handed back.
func (c *connection) readyReplies(batch []pendingReply) (ready []pendingReply, held *pendingReply) {
	for len(batch) < cap(batch) {
		select {
		case reply, ok := <-c.queue:
			if !ok {
				return batch, nil
			}
			if !reply.ready() {
				return batch, &reply
			}
			batch = append(batch, reply)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// await blocks until the reply is ready or the connection ends.
func (c *connection) await(reply *pendingReply) {
	if reply.Wait == nil {
		return
	}
	select {
	case <-reply.Wait:
	case <-c.info.Context.Done():
	}
}

func (r *pendingReply) ready() bool {
	if r.Wait == nil {
		return true
	}
	select {
	case <-r.Wait:
		return true
	default:
		return false
	}
}

// abandon ends the connection after a failure and gives back what is still queued.
func (c *connection) abandon(held *pendingReply, err error) {
	c.cancel() // closes the connection, which ends the reader, which closes the queue
	c.server.logger.Debug("sending failed", "remote", c.info.Remote.String(), "error", err)
	if held != nil {
		c.settle(*held)
		c.owed.Add(-1)
	}
	for reply := range c.queue {
		c.settle(reply)
		c.owed.Add(-1)
	}
}

// send completes each reply of the batch, sends them all, and gives back what they held, whatever happens. What stands
// before a reply that fails is still sent.
func (c *connection) send(batch []pendingReply) error {
	for len(batch) > 0 {
		completed, failure := c.completeSome(batch)
		err := errors.Join(failure, c.sendCompleted(batch[:completed]))
		batch = batch[completed:]
		if err != nil {
			for _, lost := range batch {
				c.settle(lost)
			}
			return err
		}
	}
	return nil
}

// sentTogether bounds the memory of answers that are made before they are sent: beyond it, those that are complete go
// out first.
const sentTogether = 256 << 10

// completeSome makes answers, in order, until they are many bytes or one fails, and tells how many are complete.
func (c *connection) completeSome(batch []pendingReply) (completed int, err error) {
	size := int64(0)
	for i := range batch {
		if size >= sentTogether {
			return i, nil
		}
		if err := c.complete(&batch[i]); err != nil {
			return i, err
		}
		size += batch[i].bytes
	}
	return len(batch), nil
}

// sendCompleted sends answers that are complete and gives back what they held.
func (c *connection) sendCompleted(batch []pendingReply) error {
	c.sender.stall, c.sender.look = c.server.config.IdleTimeout, c.server.config.IdleTimeout
	if c.held.Load() > 0 || c.owed.Load() > int64(len(batch)) {
		c.sender.stall = min(c.server.config.FrameTimeout, c.server.config.IdleTimeout)
		c.sender.look = min(contendedStall, c.sender.stall)
	}
	began := c.clock()
	err := c.put(batch)
	ended := c.clock()
	for i := range batch {
		batch[i].api.answered(&batch[i], began, ended)
		if wait := batch[i].Response.Throttle(); wait > 0 {
			c.mute(wait)
		}
		c.settle(batch[i])
	}
	return err
}

// put sends answers that are complete.
func (c *connection) put(batch []pendingReply) error {
	defer c.sender.reset()
	for i := range batch {
		if err := c.sender.add(batch[i].Response); err != nil {
			return err
		}
	}
	return c.sender.flush()
}

// complete makes the answer of a reply that is ready; if the connection has ended before it was, that is an error.
// Cancel is not called any more once Finish has been. An answer is not begun while there is no memory for it, unless
// the connection holds some already: what holds memory must get on.
func (c *connection) complete(reply *pendingReply) (err error) {
	if !reply.ready() {
		return context.Cause(c.info.Context)
	}
	finish := reply.Finish
	if finish != nil {
		select {
		case <-c.holds: // of earlier
		default:
		}
		if c.held.Load() > 0 {
			c.server.answers.adjust(expectedAnswer)
		} else if err := c.server.answers.take(c.info.Context, expectedAnswer, c.holds); err != nil {
			return err
		}
		reply.Finish, reply.Cancel = nil, nil
		defer func() {
			if recovered := recover(); recovered != nil {
				c.server.answers.adjust(-expectedAnswer)
				err = c.panicked(recovered)
			}
		}()
		reply.Response = finish()
		c.charge(reply, expectedAnswer)
	}
	if finish != nil || reply.Wait != nil {
		reply.times.ready = c.clock()
	}
	if reply.Response == nil {
		return errNoAnswer
	}
	return nil
}
