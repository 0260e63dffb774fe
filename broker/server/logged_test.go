package server

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/firnlog/firn/internal/network"
)

// TestPR04PR06WhatAPeerGotWrongIsLoggedWithWhoAndWhat: one line each, which warns and is no error of the broker.
func TestPR04PR06WhatAPeerGotWrongIsLoggedWithWhoAndWhat(t *testing.T) {
	for name, test := range map[string]struct {
		frame []byte
		says  string
	}{
		"a client id of length -7530":      {lengthPrefix(12, 0, 3, 0, 1, 0, 0, 0, 1, 0xe2, 0x96, 0, 0), "api_key=3 api_version=1"},
		"a client id longer than all":      {lengthPrefix(12, 0, 3, 0, 1, 0, 0, 0, 1, 0x10, 0, 0, 0), "api_key=3 api_version=1"},
		"a version that nobody has served": {requestOf(3, 200, 1), "version 200"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged strings.Builder
				server := start(t, network.NewMemory(), echo)
				server.logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelInfo}))
				client := server.dial()
				client.send(test.frame)
				client.expectClosed()
				synctest.Wait()
				lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
				if len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], test.says) ||
					!strings.Contains(lines[0], "remote="+client.LocalAddr().String()) {
					t.Errorf("logged %q", lines)
				}
			})
		})
	}
}
