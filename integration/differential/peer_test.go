//go:build integration

package differential

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

const (
	// answerTimeout bounds the wait for one answer.
	answerTimeout = 30 * time.Second
	// briefTimeout is for requests to which one of the brokers is known to give none.
	briefTimeout = 2 * time.Second
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 64 << 20

// peer is one of the two brokers, with the one connection that a script uses.
type peer struct {
	name, address string
	http          string // firn's own listener; Kafka has none
	logs          string // the folder of the partitions
	conn          net.Conn
	timeout       time.Duration // of an answer, if not the usual one
	correlation   int32

	start       int64  // ms since 1970: of the records of all scripts
	appendTimes bool   // the broker's clock stamps the records of the script that runs
	prefix      string // of the names of the topics of the script that runs
	// topics are the ids of the topics that scripts have made, by name.
	topics map[string]kafka.TopicID
	// shared are the topics of many scripts that are there already.
	shared map[string]bool
}

// outcome is what became of a request: an answer, or the end of the connection.
type outcome struct {
	response kmsg.Response
	ended    string // how the connection ended, if it did
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("differential"))

// ask sends one request and reads its answer, on a new connection if the last one was closed.
func (p *peer) ask(req kmsg.Request) (outcome, error) {
	return p.askChanged(req, func(frame []byte) []byte { return frame })
}

// askChanged is ask with a frame, without its size, that is changed before it is sent.
func (p *peer) askChanged(req kmsg.Request, change func(frame []byte) []byte) (outcome, error) {
	if err := p.send(req, change); err != nil {
		return outcome{}, err
	}
	frame, err := p.read()
	if ended, err := p.ended(err); ended != "" || err != nil {
		return outcome{ended: ended}, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if req.Key() == keyApiVersions && len(frame) > 1 && frame[0] == 0 && frame[1] == byte(kafka.UnsupportedVersion) {
		resp.SetVersion(0) // of a version above the broker's own
	} else if resp.IsFlexible() && req.Key() != keyApiVersions {
		if frame, err = skipTags(frame); err != nil {
			return outcome{}, err
		}
	}
	if err := resp.ReadFrom(frame); err != nil {
		return outcome{}, fmt.Errorf("%s: answer %x of key %d version %d: %w", p.name, frame, req.Key(), req.GetVersion(), err)
	}
	return outcome{response: resp}, nil
}

const keyApiVersions = 18

func (p *peer) send(req kmsg.Request, change func(frame []byte) []byte) error {
	if p.conn == nil {
		conn, err := net.DialTimeout("tcp", p.address, answerTimeout)
		if err != nil {
			return err
		}
		p.conn = conn
	}
	p.correlation++
	if err := p.conn.SetDeadline(time.Now().Add(cmp.Or(p.timeout, answerTimeout))); err != nil {
		return err
	}
	// A peer that has closed the connection shows it to the reader.
	frame := change(formatter.AppendRequest(nil, req, p.correlation)[4:])
	_, _ = p.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return nil
}

// read reads one answer without its size and correlation id.
func (p *peer) read() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(p.conn, size[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(size[:])
	if length < 4 || length > maxAnswer {
		return nil, fmt.Errorf("%s: an answer of %d bytes", p.name, length)
	}
	frame := make([]byte, length)
	if _, err := io.ReadFull(p.conn, frame); err != nil {
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(frame)); id != p.correlation {
		return nil, fmt.Errorf("%s: correlation id %d instead of %d", p.name, id, p.correlation)
	}
	return frame[4:], nil
}

// ended tells the end of a connection from a failure of the test.
func (p *peer) ended(err error) (string, error) {
	if err == nil {
		return "", nil
	}
	p.close()
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "no answer", nil
	}
	var network *net.OpError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return "connection closed", nil
	}
	return "", err
}

func (p *peer) close() {
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}

// skipTags passes over the tagged fields of a response's header.
func skipTags(frame []byte) ([]byte, error) {
	number := func() uint64 {
		n, size := binary.Uvarint(frame)
		frame = frame[max(size, 0):]
		return n
	}
	for count := number(); count > 0; count-- {
		number()
		size := number()
		if size > uint64(len(frame)) {
			return nil, io.ErrUnexpectedEOF
		}
		frame = frame[size:]
	}
	return frame, nil
}
