package wire

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/firnlog/firn/internal/kafka"
)

// ErrorCount is how often an answer carries a code. Success counts, too: it is the code None.
type ErrorCount struct {
	Code  kafka.Errno
	Count int32
}

// ErrorCounts lists the codes that an answer carries, each once: of the answer itself and of everything in it, as
// Kafka counts them for its metric ErrorsPerSec. The list belongs to the response.
func (r *Response) ErrorCounts() []ErrorCount { return r.errors }

// countError counts one code. Few answers have more than two, which lie in the response itself.
func (r *Response) countError(code kafka.Errno) {
	for i := range r.errors {
		if r.errors[i].Code == code {
			r.errors[i].Count++
			return
		}
	}
	if r.errors == nil {
		r.errors = r.inlineErrors[:0]
	}
	r.errors = append(r.errors, ErrorCount{Code: code, Count: 1})
}

// errorFields says where a struct of kmsg has its error codes: in a field of its own, and in lists of structs.
type errorFields struct {
	code  int // index of ErrorCode; −1 without one
	lists []errorList
}

type errorList struct {
	field  int
	fields errorFields
}

// errorFieldsByKey holds the error fields of each served answer. It is made once and never written again: looking for
// the fields of ten thousand partitions by name would cost more than encoding them.
var errorFieldsByKey = findAllErrorFields()

func findAllErrorFields() map[int16]errorFields {
	all := make(map[int16]errorFields, len(served))
	for i := range served {
		key := served[i].Key
		all[key], _ = findErrorFields(reflect.TypeOf(kmsg.ResponseForKey(key)).Elem())
	}
	return all
}

// findErrorFields also tells whether there are any.
func findErrorFields(of reflect.Type) (fields errorFields, found bool) {
	fields.code = -1
	for i := range of.NumField() {
		field := of.Field(i)
		switch {
		case field.Name == "ErrorCode":
			fields.code = i
		case field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			if below, any := findErrorFields(field.Type.Elem()); any {
				fields.lists = append(fields.lists, errorList{i, below})
			}
		}
	}
	return fields, fields.code >= 0 || len(fields.lists) > 0
}

// countErrors counts all codes of an answer.
func (r *Response) countErrors(body kmsg.Response) {
	fields := errorFieldsByKey[body.Key()]
	fields.count(r, reflect.ValueOf(body).Elem())
}

func (f *errorFields) count(r *Response, in reflect.Value) {
	if f.code >= 0 {
		r.countError(kafka.Errno(in.Field(f.code).Int()))
	}
	for i := range f.lists {
		list := in.Field(f.lists[i].field)
		for j := range list.Len() {
			f.lists[i].fields.count(r, list.Index(j))
		}
	}
}
