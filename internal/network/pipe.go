package network

import (
	"sync"
	"time"
)

// bufferBytes is how much may be on its way in one direction before a write blocks, about what the socket buffers of
// both ends hold on loopback.
const bufferBytes = 256 << 10

// pipe is one connection: two streams between two sides. Conditions rather than channels wake its readers and writers,
// because a deadline, a close and a heal all wake the same waiters.
type pipe struct {
	memory *Memory
	link   link

	mu      sync.Mutex // guards the fields below
	state   linkState
	sides   [2]side
	streams [2]stream // streams[i] flows to side i
}

// side is what one end knows.
type side struct {
	closed        bool
	finished      bool // wrote its last byte (half close)
	peerGone      bool // has learnt that the other end closed: writing is pointless
	wasReset      bool
	readDeadline  deadline
	writeDeadline deadline
}

// stream is the bytes written for one side and not read by it yet. The first arrived ones may be read; the others are
// on their way.
type stream struct {
	changed sync.Cond // bytes, space, or the state of a side that reads or writes here
	buffer  []byte
	start   int // of the unread bytes in buffer
	arrived int
	transit []packet
	ended   bool // the end of the stream has arrived
}

// packet is some bytes, or the end of a stream, on its way.
type packet struct {
	at    time.Time // when it arrives
	bytes int
	end   ending
}

type ending int

const (
	endNone ending = iota
	endFinished
	endClosed
)

func newPipe(m *Memory, between link, state linkState) *pipe {
	p := &pipe{memory: m, link: between, state: state}
	for i := range p.streams {
		p.streams[i].changed.L = &p.mu
	}
	return p
}

func (p *pipe) setLink(state linkState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
	p.deliver()
}

// reset ends the connection for both sides and drops what is on its way.
func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.sides {
		p.sides[i].wasReset = true
		p.streams[i].drop()
	}
	p.wake()
}

func (p *pipe) wake() {
	for i := range p.streams {
		p.streams[i].changed.Broadcast()
	}
}

// send puts bytes or an ending on their way to a side. Called with mu held.
func (p *pipe) send(to int, data []byte, end ending) {
	s := &p.streams[to]
	s.put(data)
	packet := packet{at: time.Now().Add(p.state.delay), bytes: len(data), end: end}
	if n := len(s.transit); n > 0 && s.transit[n-1].at.After(packet.at) {
		packet.at = s.transit[n-1].at // a shorter delay does not overtake
	}
	s.transit = append(s.transit, packet)
	if p.state.delay > 0 {
		time.AfterFunc(time.Until(packet.at), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.deliver()
		})
	}
	p.deliver()
}

// deliver lets everything arrive that is due. Called with mu held.
func (p *pipe) deliver() {
	if p.state.cut {
		return
	}
	now := time.Now()
	for to := range p.streams {
		s := &p.streams[to]
		due := 0
		for due < len(s.transit) && !s.transit[due].at.After(now) {
			packet := s.transit[due]
			s.arrived += packet.bytes
			s.ended = s.ended || packet.end != endNone
			p.sides[to].peerGone = p.sides[to].peerGone || packet.end == endClosed
			due++
		}
		if due > 0 {
			s.transit = append(s.transit[:0], s.transit[due:]...)
			p.wake()
		}
	}
}

// put adds bytes and moves the unread ones to the front where that saves growing.
func (s *stream) put(data []byte) {
	if s.start > 0 && len(s.buffer)+len(data) > cap(s.buffer) {
		s.buffer = append(s.buffer[:0], s.buffer[s.start:]...)
		s.start = 0
	}
	s.buffer = append(s.buffer, data...)
}

// take moves arrived bytes out.
func (s *stream) take(into []byte) int {
	n := copy(into, s.buffer[s.start:s.start+s.arrived])
	s.start += n
	s.arrived -= n
	if s.start == len(s.buffer) {
		s.buffer, s.start = s.buffer[:0], 0
	}
	s.changed.Broadcast()
	return n
}

func (s *stream) space() int { return bufferBytes - (len(s.buffer) - s.start) }

func (s *stream) drop() { s.buffer, s.start, s.arrived, s.transit = nil, 0, 0, nil }

// deadline is a point in time after which waiting ends. Its timer only wakes the waiters; they compare times
// themselves, so a timer that fires for an older deadline does no harm.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(at time.Time, wake func()) {
	d.at = at
	d.stop()
	if at.IsZero() {
		return
	}
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(at), wake)
		return
	}
	d.timer.Reset(time.Until(at))
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
