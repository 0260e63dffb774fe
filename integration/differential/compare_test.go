//go:build integration

package differential

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/broker/record"
	"github.com/firnlog/firn/internal/kafka"
)

// found is one field that differs.
type found struct {
	path        string
	kafka, firn string
}

// absent stands for what one side has and the other has not.
const absent = "absent"

// comparison walks over two answers at once.
type comparison struct {
	kafka, firn *peer
	found       []found
}

// compare lists the fields in which two outcomes differ.
func compare(kafkaPeer, firnPeer *peer, a, b outcome) []found {
	if a.ended != b.ended {
		return []found{{"answer", cmp.Or(a.ended, "present"), cmp.Or(b.ended, "present")}}
	}
	if a.ended != "" {
		return nil
	}
	c := comparison{kafka: kafkaPeer, firn: firnPeer}
	c.walk("", reflect.ValueOf(a.response).Elem(), reflect.ValueOf(b.response).Elem())
	return c.found
}

func (c *comparison) differ(path, a, b string) {
	if a != b {
		c.found = append(c.found, found{path, a, b})
	}
}

func (c *comparison) walk(path string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[kmsg.Tags]() {
			c.differ(path, tags(a), tags(b))
			return
		}
		c.fields(path, a, b)
	case reflect.Pointer:
		switch {
		case a.IsNil() || b.IsNil():
			c.differ(path, presence(a), presence(b))
		case !strings.HasSuffix(path, "ErrorMessage") && !strings.HasSuffix(path, "Documentation"): // texts are free
			c.walk(path, a.Elem(), b.Elem())
		}
	case reflect.Slice:
		switch {
		case a.Type().Elem().Kind() == reflect.Struct:
			c.list(path, a, b)
		case strings.HasSuffix(path, "RecordBatches"):
			c.list(path, batchesOf(a.Bytes()), batchesOf(b.Bytes()))
		default:
			c.differ(path, c.kafka.text(path, a), c.firn.text(path, b))
		}
	default:
		c.differ(path, c.kafka.text(path, a), c.firn.text(path, b))
	}
}

func presence(v reflect.Value) string {
	if v.IsNil() {
		return "null"
	}
	return "present"
}

func (c *comparison) fields(path string, a, b reflect.Value) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if !field.IsExported() || field.Name == "Version" || field.Name == "ThrottleMillis" {
			continue
		}
		name := field.Name
		if path != "" {
			name = path + "." + name
		}
		c.walk(name, a.Field(i), b.Field(i))
	}
}

// list compares lists of structs. Where the elements have a key they are compared by it, in whatever order they come;
// a key that comes twice is told apart by a number.
func (c *comparison) list(path string, a, b reflect.Value) {
	if a.IsNil() != b.IsNil() && (a.Len() > 0) == (b.Len() > 0) {
		c.differ(path, presence(a), presence(b))
	}
	left, right := c.kafka.keyed(a), c.firn.keyed(b)
	var keys []string
	for key := range left {
		keys = append(keys, key)
	}
	for key := range right {
		if _, both := left[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		element := fmt.Sprintf("%s[%s]", path, key)
		x, inA := left[key]
		y, inB := right[key]
		if inA && inB {
			c.walk(element, x, y)
			continue
		}
		c.differ(element, either(inA, "present", absent), either(inB, "present", absent))
	}
}

func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// keyFields are the fields that name an element of a list. The first one that a struct has is its key.
var keyFields = []string{"ApiKey", "Group", "Topic", "ResourceName", "Name", "Partition", "NodeID", "LastSequence"}

func (p *peer) keyed(list reflect.Value) map[string]reflect.Value {
	elements := map[string]reflect.Value{}
	for i := range list.Len() {
		element := list.Index(i)
		key := cmp.Or(p.key(element), strconv.Itoa(i))
		for n := 2; ; n++ {
			if _, taken := elements[key]; !taken {
				break
			}
			key = fmt.Sprintf("%s#%d", strings.Split(key, "#")[0], n)
		}
		elements[key] = element
	}
	return elements
}

func (p *peer) key(element reflect.Value) string {
	for _, name := range keyFields {
		field := element.FieldByName(name)
		if !field.IsValid() {
			continue
		}
		if field.Kind() == reflect.Pointer {
			if field.IsNil() {
				break
			}
			field = field.Elem()
		}
		if field.Kind() == reflect.String && field.String() == "" {
			break
		}
		return p.text(name, field) + kindOf(element)
	}
	if id := element.FieldByName("TopicID"); id.IsValid() {
		return strings.TrimPrefix(p.text("TopicID", id), idOf)
	}
	return ""
}

// kindOf tells apart resources that have one name.
func kindOf(element reflect.Value) string {
	if kind := element.FieldByName("Type"); kind.IsValid() && element.Type().Name() == "ListConfigResourcesResponseConfigResource" {
		return fmt.Sprintf(" of type %d", kind.Int())
	}
	return ""
}

// text prints a value so that equal answers of both brokers print alike.
func (p *peer) text(path string, v reflect.Value) string {
	name := path[strings.LastIndex(path, ".")+1:]
	if strings.HasPrefix(path, "Topics[__cluster_metadata]") && v.CanInt() && !strings.HasSuffix(name, "ErrorCode") {
		name = "quorum." + name
	}
	host, port, _ := net.SplitHostPort(p.address)
	switch plain := fmt.Sprint(v.Interface()); name {
	case "ErrorCode":
		return codeName(int16(v.Int()))
	case "Group", "Topic", "Name", "ResourceName":
		return shorten(strings.TrimPrefix(plain, p.prefix))
	case "MemberID", "LeaderID":
		if of, _, made := strings.Cut(plain, "-"); made && (of == "differential" || of == "x") {
			return of + "-…" // what comes after the client's or the instance's name is random
		}
	case "Host":
		return either(plain == host, "own", plain)
	case "Port":
		return either(plain == port, "own", plain)
	case "ClusterID", "Dir":
		return either(plain != "", "some", "none")
	case "ErrorMessage", "Message":
		return either(plain != "", "present", "empty")
	case "Timestamp":
		return p.relative(v.Int())
	case "FinalizedFeaturesEpoch":
		return either(v.Int() >= 0, "some", "none")
	case "SessionID", "quorum.LeaderEpoch", "quorum.HighWatermark", "quorum.LogEndOffset":
		return either(v.Int() > 0, "some", plain)
	case "LogAppendTime", "LastFetchTimestamp", "LastCaughtUpTimestamp", "quorum.LastFetchTimestamp",
		"quorum.LastCaughtUpTimestamp", "ProducerID", "TotalBytes", "UsableBytes", "StartTimestamp":
		return either(v.CanInt() && v.Int() >= 0, "some", plain)
	case "ReplicaDirectoryID", "ReplicaDirectory":
		return either(v.IsZero(), "none", "some")
	}
	if id, ok := v.Interface().([16]byte); ok {
		return p.topicOf(id)
	}
	return fmt.Sprintf("%v", v.Interface())
}

// relative prints a time as its distance from the start of the script, where all records' times are.
func (p *peer) relative(timestamp int64) string {
	const near = 24 * 3_600_000
	switch delta := timestamp - p.start; {
	case delta < -near || delta > near:
		return strconv.FormatInt(timestamp, 10)
	case p.appendTimes:
		return "some"
	default:
		return fmt.Sprintf("start%+d", delta)
	}
}

// shorten keeps what tells names apart.
func shorten(name string) string {
	const longest = 60
	if len(name) <= longest {
		return name
	}
	return name[:longest] + "…"
}

// idOf comes before the name of a topic where its id stands.
const idOf = "id of "

// topicOf names the topic of an id.
func (p *peer) topicOf(id kafka.TopicID) string {
	if id.IsZero() {
		return "zero id"
	}
	for name, known := range p.topics {
		if known == id {
			return idOf + strings.TrimPrefix(name, p.prefix)
		}
	}
	if id == strangerID {
		return "stranger"
	}
	return "some id"
}

// strangerID is the id of no topic.
var strangerID = kafka.TopicID{0xfe, 15: 1}

func codeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if known := kerr.TypedErrorForCode(code); known != nil {
		return known.Message
	}
	return strconv.Itoa(int(code))
}

func tags(v reflect.Value) string {
	tags := v.Interface().(kmsg.Tags)
	var text []string
	tags.Each(func(key uint32, value []byte) { text = append(text, fmt.Sprintf("%d=%x", key, value)) })
	return strings.Join(text, " ")
}

// batch is what a record batch says, as far as both brokers must agree on it.
type batch struct {
	BaseOffset, LastOffset      int64
	LeaderEpoch                 int32
	Attributes                  int16
	BaseTimestamp, MaxTimestamp int64
	ProducerID                  int64
	ProducerEpoch               int16
	BaseSequence, Count         int32
	Records                     string // checksum of the records without their codec
	Damage                      string
}

// batchesOf takes record data apart.
func batchesOf(data []byte) reflect.Value {
	batches := []batch{}
	if data == nil {
		batches = nil
	}
	for len(data) > 0 {
		next, rest, err := record.Next(data)
		if err != nil {
			batches = append(batches, batch{Damage: fmt.Sprintf("%d bytes that are no batch", len(data))})
			break
		}
		data = rest
		one := batch{
			BaseOffset: next.BaseOffset(), LastOffset: next.LastOffset(), LeaderEpoch: int32(next.LeaderEpoch()),
			Attributes: next.Attributes(), BaseTimestamp: next.BaseTimestamp(), MaxTimestamp: next.MaxTimestamp(),
			ProducerID: next.ProducerID(), ProducerEpoch: next.ProducerEpoch(), BaseSequence: next.BaseSequence(),
			Count: next.Count(),
		}
		if next.TimestampType() == record.LogAppendTime {
			one.MaxTimestamp = 0 // the broker's clock
		}
		if next.IsControl() {
			one.BaseTimestamp, one.MaxTimestamp = 0, 0 // likewise
		}
		if next.VerifyCRC() != nil {
			one.Damage = "wrong checksum"
		}
		one.Records = checksum(next)
		batches = append(batches, one)
	}
	return reflect.ValueOf(batches)
}

// checksum is of the records, whatever codec they are in: two encoders never make the same bytes.
func checksum(b record.Batch) string {
	var records record.Iterator
	if err := records.Reset(b); err != nil {
		return err.Error()
	}
	sum := crc32.NewIEEE()
	for records.Next() {
		one := records.Record()
		fmt.Fprintf(sum, "%d %d %v %q %v %q", one.OffsetDelta, one.TimestampDelta, one.Key == nil, one.Key,
			one.Value == nil, one.Value)
		for key, value := range one.Headers() {
			fmt.Fprintf(sum, "%q %v %q", key, value == nil, value)
		}
	}
	if err := records.Err(); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%08x", sum.Sum32())
}
