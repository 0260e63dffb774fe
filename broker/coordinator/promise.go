package coordinator

import "sync"

// Promise is an answer that somebody waits for. It is made good once; the first value counts.
type Promise[T any] struct {
	once  sync.Once
	done  chan struct{}
	value T
}

// NewPromise makes a promise without a value.
func NewPromise[T any]() *Promise[T] { return &Promise[T]{done: make(chan struct{})} }

// Resolved makes a promise that has its value already.
func Resolved[T any](value T) *Promise[T] {
	p := NewPromise[T]()
	p.Resolve(value)
	return p
}

// Resolve gives the promise its value, unless it has one.
func (p *Promise[T]) Resolve(value T) {
	p.once.Do(func() {
		p.value = value
		close(p.done)
	})
}

// Done is closed when there is a value.
func (p *Promise[T]) Done() <-chan struct{} { return p.done }

// Value is the value; only to be called once Done is closed.
func (p *Promise[T]) Value() T { return p.value }
