package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/server/logs"
)

// hangsUp is a body whose sender disconnects at its end, so that the server does not delay the answer.
type hangsUp struct {
	io.Reader
	hangUp context.CancelFunc
}

func (g hangsUp) Read(b []byte) (int, error) {
	n, err := g.Reader.Read(b)
	if err != nil {
		g.hangUp()
	}
	return n, err
}

func (hangsUp) Close() error { return nil }

// FuzzWhatNodesLog sends streams to the journal route, with the real systemd-journal-remote behind it. They are
// accepted or refused without a server error; accepted lines can be read; the node's next good line is accepted; and
// another node's journal does not change.
func FuzzWhatNodesLog(f *testing.F) {
	s := journalSite(
		f,
		func(c *Config) { c.Log, c.LogsSize, c.LogsNodeSize = slog.New(slog.DiscardHandler), 256<<20, 64<<20 },
	)
	s.addImage()
	n, other := s.node(1).sends(), s.node(2).sends()
	pair, err := tls.LoadX509KeyPair(n.cert, n.key)
	if err != nil {
		f.Fatal(err)
	}
	shown := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}
	s.journals.Watch(s.nameOf(other.mac)) // uploads are answered without a pause
	if code, answer := other.upload(strings.NewReader(journalEntry(1, "ssh.service", "of another "+
		"node"))); code != http.StatusAccepted {
		f.Fatalf("%d %s", code, answer)
	}
	for _, seed := range journalSeeds() {
		f.Add([]byte(seed))
	}
	routes := s.controlRoutes()
	send := func(t *testing.T, body []byte) (int, string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req := httptest.NewRequestWithContext(
			ctx,
			"POST",
			logs.NodePath+"/upload",
			hangsUp{bytes.NewReader(body), cancel},
		)
		req.TLS = shown
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	client, names := api.OverHandler(
		s.socketRoutes(),
	), map[*sending]string{
		n:     s.nameOf(n.mac),
		other: s.nameOf(other.mac),
	}
	read := func(t *testing.T, n *sending, grep string) []string {
		j, err := client.NodeLogs(t.Context(), names[n], api.JournalQuery{Grep: grep, Last: 10})
		if err != nil {
			t.Error(err)
		}
		return textsOf(j)
	}
	good := 1 << 20
	f.Fuzz(func(t *testing.T, body []byte) {
		before := s.journals.Status().Uploads
		send(t, body)
		after := s.journals.Status().Uploads
		if after["failed"] != before["failed"] {
			t.Errorf("the server failed over %q", body)
		}
		good++
		if code, answer := send(t,
			[]byte(journalEntry(good, "good.service", "a good line"))); code != http.StatusAccepted ||
			s.journals.Status().Uploads["taken"] == after["taken"] {
			t.Errorf("a good line after %q: %d %s", body, code, answer)
		}
		if got := read(t, n, "a good line"); len(got) == 0 || got[len(got)-1] != "a good line" {
			t.Errorf("after %q the journal reads %q", body, got)
		}
		if got := read(t, other, ""); len(got) != 1 || got[0] != "of another node" {
			t.Errorf("after %q the other node's journal is %q", body, got)
		}
	})
}

// journalSeeds are streams: complete, with binary fields, cut off, damaged, too large.
func journalSeeds() []string {
	sized := func(name string, n uint64, value string) string {
		return name + "\n" + string(binary.LittleEndian.AppendUint64(nil, n)) + value + "\n"
	}
	one := journalEntry(1, "a.service", "one")
	head := strings.TrimSuffix(one, "\n")
	return []string{
		one, one + journalEntry(2, "b.service", "two"), "", "\n\n\n", one[:len(one)/2], head,
		head + sized(
			"BLOB",
			3,
			"a\nb",
		) + "\n", head + sized("BLOB", 1<<62, "x") + "\n", head + sized("BLOB", 4, "ab") + "\n",
		head + "lower=1\n" + strings.Repeat("A", 65) + "=1\n_=\n=\n__X=1\n\n",
		"__REALTIME_TIMESTAMP=1763726400000000\n\n", "__REALTIME_TIMESTAMP=0\nMESSAGE=x\n\n", "MESSAGE=no time\n\n",
		"__REALTIME_TIMESTAMP=1\nMESSAGE=early\n\n", "__REALTIME_TIMESTAMP=36028797018963967\nMESSAGE=late\n\n",
		strings.ReplaceAll(
			one,
			"_BOOT_ID=",
			"_BOOT_ID=zz",
		), head + strings.Repeat("F=1\n", 300) + "\n", head + "MESSAGE=" + strings.Repeat("x", 300<<10) + "\n\n",
		head + "_MACHINE_ID=xyz\nCOREDUMP=\x00\xff\n\n", strings.ReplaceAll(one, "\n", "\r\n"),
	}
}
