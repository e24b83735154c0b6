package initrd

import (
	"testing"
)

func TestChannelAuthorization(t *testing.T) {
	var c channel
	if got := c.authorization("tok"); got != "" {
		t.Errorf("without a network: %q", got)
	}
	c.network.Store(true)
	if got := c.authorization("tok"); got != "" {
		t.Errorf("before hello, all well: %q, want none", got)
	}
	c.failed.Store(true)
	if got := c.authorization("tok"); got != "Boot tok" {
		t.Errorf("before hello, with bad news: %q", got)
	}
	s := "session"
	c.session.Store(&s)
	if got := c.authorization("tok"); got != "Bearer session" {
		t.Errorf("after hello: %q", got)
	}
}
