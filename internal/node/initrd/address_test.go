package initrd

import (
	"testing"
	"time"

	"pando/internal/link"
)

// A node that boots without a DHCP server has a lease that counts as expired, however long it is.
func TestReusedLeaseIsExpired(t *testing.T) {
	kept := link.Lease{Acquired: 5 * time.Second, Renew: 6 * time.Hour, Rebind: 10 * time.Hour, Length: 12 * time.Hour}
	now := 20 * time.Second
	l := reused(kept, link.NIC{Index: 3, Name: "eth0"}, now)
	if l.Interface != 3 || l.Name != "eth0" || now-l.Acquired < l.Length {
		t.Errorf("%+v is %s old, of %s", l, now-l.Acquired, l.Length)
	}
}
