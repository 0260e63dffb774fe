package objectstore

import (
	"context"
	"sync"
	"time"
)

// credentials are what requests are signed with.
type credentials struct {
	id, secret, token string
	expires           time.Time // zero: never
}

// fetchCredentials gets credentials from where they come from, which may be far away.
type fetchCredentials func(ctx context.Context) (credentials, error)

// credentialError is a failure to get any: not the store's, and it may pass.
type credentialError struct{ err error }

// Error implements error.
func (e *credentialError) Error() string { return "get credentials: " + e.err.Error() }

// Unwrap implements errors.Unwrap.
func (e *credentialError) Unwrap() error { return e.err }

const (
	// renewBefore is how long before their end credentials are renewed; a fifth of their life, if that is shorter.
	renewBefore = 5 * time.Minute
	// renewAgain is how long after a failure to renew credentials that are still good it is tried again.
	renewAgain = 10 * time.Second
)

// credentialCache keeps credentials until they should be renewed, which is well before their end: what fails then is
// tried again while the old ones still do. One that the store calls expired is renewed at once.
type credentialCache struct {
	fetch    fetchCredentials
	observe  func(expires time.Time, err error) // told of each fetch
	fetching chan struct{}                      // a lock, held across a fetch

	mu      sync.Mutex // guards the fields below
	current credentials
	renewAt time.Time // zero while there is nothing to use
	forever bool      // current does not expire
}

func newCredentialCache(fetch fetchCredentials, observe func(time.Time, error)) *credentialCache {
	return &credentialCache{fetch: fetch, observe: observe, fetching: make(chan struct{}, 1)}
}

// look gives what there is, and whether it need not be renewed, or may at least still be used.
func (c *credentialCache) look() (current credentials, fresh, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewAt.IsZero() {
		return credentials{}, false, false
	}
	now := time.Now()
	return c.current, c.forever || now.Before(c.renewAt), c.forever || now.Before(c.current.expires)
}

// fresh tells whether get would answer at once.
func (c *credentialCache) fresh() bool {
	_, fresh, _ := c.look()
	return fresh
}

// get gives credentials that are good. Its error is a *credentialError or that of ctx.
func (c *credentialCache) get(ctx context.Context) (credentials, error) {
	current, fresh, usable := c.look()
	if fresh {
		return current, nil
	}
	select {
	case c.fetching <- struct{}{}:
		defer func() { <-c.fetching }()
	default:
		if usable { // somebody else is at it
			return current, nil
		}
		select {
		case c.fetching <- struct{}{}:
			defer func() { <-c.fetching }()
		case <-ctx.Done():
			return credentials{}, &credentialError{context.Cause(ctx)}
		}
		if current, fresh, _ = c.look(); fresh {
			return current, nil
		}
	}
	return c.renew(ctx)
}

// renew fetches new credentials. It needs fetching.
func (c *credentialCache) renew(ctx context.Context) (credentials, error) {
	found, err := c.fetch(ctx)
	c.observe(found.expires, err)
	_, _, usable := c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case err != nil && usable:
		c.renewAt = now.Add(renewAgain)
		return c.current, nil
	case err != nil:
		return credentials{}, &credentialError{err}
	}
	c.current, c.forever = found, found.expires.IsZero()
	c.renewAt = now
	if !c.forever {
		c.renewAt = found.expires.Add(-min(renewBefore, found.expires.Sub(now)/5))
	}
	return found, nil
}

// forget has the credentials fetched anew before they are used again, and tells whether that can be expected to help:
// those that do not expire are what somebody has set.
func (c *credentialCache) forget() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewAt = time.Time{}
	return !c.forever
}
