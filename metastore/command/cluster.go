package command

import (
	"encoding/binary"

	"github.com/firnlog/firn/internal/kafka"
)

// InitCluster gives the cluster its id. The first one wins: the result is the kafka.UUID that holds from then on.
type InitCluster struct {
	ClusterID kafka.UUID
}

// Type is TypeInitCluster.
func (InitCluster) Type() Type { return TypeInitCluster }

func (c InitCluster) appendBody(dst []byte) []byte { return append(dst, c.ClusterID[:]...) }

// Endpoint is an advertised address of a broker.
type Endpoint struct {
	Name     string // of the listener
	Host     string
	Port     int32
	Protocol string // Kafka's security protocol, such as PLAINTEXT
}

// RegisterBroker makes a broker known, says that it has started again, or that other log directories of it serve: it
// loses the lead of partitions in those that do not (KIP-858). The result is a BrokerRegistration.
type RegisterBroker struct {
	ID          kafka.BrokerID
	Incarnation kafka.UUID // drawn at each start of the process
	Rack        *string
	Listeners   []Endpoint
	Directories []kafka.UUID // ids of its log directories that serve
}

// BrokerRegistration is the result of RegisterBroker.
type BrokerRegistration struct {
	Epoch int64 // index of the registration in the log: each start of a broker has a higher one
}

// Type is TypeRegisterBroker.
func (RegisterBroker) Type() Type { return TypeRegisterBroker }

func (c RegisterBroker) appendBody(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(c.ID))
	dst = append(dst, c.Incarnation[:]...)
	dst = AppendNullableString(dst, c.Rack)
	dst = AppendEndpoints(dst, c.Listeners)
	return AppendUUIDs(dst, c.Directories)
}

func readRegisterBroker(c *Cursor) Command {
	return RegisterBroker{
		ID:          c.Broker(),
		Incarnation: c.UUID(),
		Rack:        c.NullableString(),
		Listeners:   c.Endpoints(),
		Directories: c.UUIDs(),
	}
}

// AppendEndpoints appends a list of endpoints.
func AppendEndpoints(dst []byte, endpoints []Endpoint) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(endpoints)))
	for _, endpoint := range endpoints {
		dst = AppendString(dst, endpoint.Name)
		dst = AppendString(dst, endpoint.Host)
		dst = binary.AppendVarint(dst, int64(endpoint.Port))
		dst = AppendString(dst, endpoint.Protocol)
	}
	return dst
}

// Endpoints reads a list of endpoints; an empty one is nil.
func (c *Cursor) Endpoints() []Endpoint {
	const minBytes = 4 // three empty strings and a one-byte port
	return readList(c, minBytes, func(c *Cursor) Endpoint {
		return Endpoint{Name: c.String(), Host: c.String(), Port: c.Int32(), Protocol: c.String()}
	})
}

// AllocateProducerIDs hands a block of producer ids to a broker. The result is a ProducerIDBlock.
type AllocateProducerIDs struct {
	Broker kafka.BrokerID
	Count  int32
}

// ProducerIDBlock is a range of producer ids, [First, End), that nobody else gets.
type ProducerIDBlock struct {
	First, End int64
}

// MaxProducerIDBlock bounds a block: a thousand are asked for, and a mistake must not use up the 63 bits.
const MaxProducerIDBlock = 1_000_000

// Type is TypeAllocateProducerIDs.
func (AllocateProducerIDs) Type() Type { return TypeAllocateProducerIDs }

func (c AllocateProducerIDs) appendBody(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(c.Broker))
	return binary.AppendVarint(dst, int64(c.Count))
}
