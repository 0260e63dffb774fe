package group

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestEachRebalanceIsLoggedOnceWithItsReason (KIP-800): whose doing it is, what has happened, and what its client says.
func TestEachRebalanceIsLoggedOnceWithItsReason(t *testing.T) {
	var log bytes.Buffer
	inBubbleLogging(t, &log, func(b *bench) {
		rebalances := func() (lines []string) {
			t.Helper()
			synctest.Wait()
			pattern := regexp.MustCompile(`level=INFO msg="a group rebalances" group=g cause="?([^"]*?)"? member=(\S+?)(?:-\S+)? reason="?([^"]*?)"?\n`)
			for _, match := range pattern.FindAllStringSubmatch(log.String(), -1) {
				lines = append(lines, strings.Join(match[1:], "|"))
			}
			log.Reset()
			return lines
		}
		expect := func(what string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, rebalances()); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		told := answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining("g", "")))
		expect("told its id")
		join := joining("g", told.MemberID)
		reason := "it begins"
		join.Reason = &reason
		first := b.settle("g", b.sendJoin(join))
		expect("the first member", "a new member has joined|c|it begins")

		told = answered[*kmsg.JoinGroupResponse](b, b.sendJoin(joining("g", "")))
		second := joining("g", told.MemberID)
		long := strings.Repeat("x", 254) + "é and more"
		second.Reason = &long
		waits := b.sendJoin(second)
		again := b.sendJoin(joining("g", first.MemberID))
		joined := answered[*kmsg.JoinGroupResponse](b, again)
		answered[*kmsg.JoinGroupResponse](b, waits)
		b.sync("g", joined)
		expect("a second one", "a new member has joined|c|"+strings.Repeat("x", 254)+"…")

		leave := leaving("g", told.MemberID)
		leave.Members[0].Reason = &reason
		answered[*kmsg.LeaveGroupResponse](b, b.coordinator.Leave(leave))
		expect("it leaves", "a member has left|c|it begins")
		time.Sleep(11 * time.Second)
		expect("the other is silent during the rebalance")
		time.Sleep(time.Minute)
		if state := b.groups()["g"]; state != "Empty" {
			t.Errorf("the group is %s", state)
		}
	})
}
