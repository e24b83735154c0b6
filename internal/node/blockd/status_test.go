package blockd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/blockapi"
	"pando/internal/link"
)

func TestStatusSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), blockapi.Socket)
	if err := os.WriteFile(path, nil, 0o600); err != nil { // left by a daemon that was killed
		t.Fatal(err)
	}
	var set link.Network
	over := false
	s := &statusServer{
		status: func(since int64) blockapi.Status { return blockapi.Status{Reads: 42, Sequence: since} },
		setNetwork: func(n link.Network) error {
			if n.Interface == 0 {
				return errors.New("no interface")
			}
			set = n
			return nil
		},
		endReads: func() blockapi.Recording {
			return blockapi.Recording{Count: 3, Reads: []byte("abc"), Pack: "p", Wasted: 9}
		},
		booted: func() { over = true }}
	if err := serveStatus(t.Context(), path, s, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v; want 0600", fi.Mode(), err)
	}
	c := blockapi.Client{Socket: path}
	if st, err := c.Status(t.Context(), 7); err != nil || st.Reads != 42 || st.Sequence != 7 {
		t.Errorf("status %+v, %v", st, err)
	}
	want := link.Network{Interface: 2, Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
		Routes: []link.Route{{Via: netip.MustParseAddr("192.0.2.254")}}}
	if err := c.SetNetwork(t.Context(), want); err != nil || set.Interface != 2 || set.Routes[0] != want.Routes[0] {
		t.Errorf("network %+v, %v", set, err)
	}
	if err := c.SetNetwork(t.Context(), link.Network{}); err == nil || !strings.Contains(err.Error(), "no interface") {
		t.Errorf("network without interface: %v", err)
	}
	if r, err := c.EndReads(t.Context()); err != nil || r.Count != 3 || string(r.Reads) != "abc" || r.Pack != "p" ||
		r.Wasted != 9 {
		t.Errorf("reads %+v, %v", r, err)
	}
	if err := c.Booted(t.Context()); err != nil || !over {
		t.Errorf("booted: %t, %v", over, err)
	}
	for _, bad := range []string{"/status?since=x", "/nothing", "/reads", "/booted"} {
		if err := request(t, c.Socket, "GET", bad, ""); err == nil {
			t.Errorf("GET %s succeeds", bad)
		}
	}
	if err := request(t, c.Socket, "PUT", "/network", `{"interface":1,"typo":2}`); err == nil {
		t.Error("PUT of an unknown field succeeds")
	}
}

// request sends a request that blockapi.Client does not have.
func request(t *testing.T, socket, method, path, body string) error {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://block"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status)
	}
	return nil
}
