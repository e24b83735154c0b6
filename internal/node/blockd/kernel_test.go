package blockd

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/sockopt"
)

// kernelSite serves a file with a kernel and an initramfs, as a daemon does.
func kernelSite(t *testing.T, sizes ...int) (url string, objects [][]byte, ids []chunk.ID, sent *atomic.Int64) {
	t.Helper()
	var all []byte
	k := &blockapi.KernelFile{}
	for _, n := range sizes {
		data := make([]byte, n)
		_, _ = rand.Read(data)
		id := chunk.Sum(data)
		k.Objects = append(k.Objects, blockapi.KernelObject{ID: id.Name(), Size: int64(n)})
		objects, ids, all = append(objects, data), append(ids, id), append(all, data...)
	}
	path := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if k.File, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.File.Close() })
	sent = new(atomic.Int64)
	other := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	s := httptest.NewServer(&kernelServer{k, other, make(chan struct{}, kernelUploads), &sockopt.Scheduler{},
		func(n int64) { sent.Add(n) }})
	t.Cleanup(s.Close)
	return s.URL, objects, ids, sent
}

// A node sends the kernel and the initramfs that it was started with, whole and with their lengths. Other requests go
// to the swarm.
func TestKernelIsServed(t *testing.T) {
	url, objects, ids, sent := kernelSite(t, 300_001, 77_000)
	for i, id := range ids {
		res, err := http.Get(url + "/o/" + id.Name())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.ContentLength != int64(len(objects[i])) || !bytes.Equal(got, objects[i]) {
			t.Errorf("object %d: %d bytes of %d, %v", i, len(got), res.ContentLength, err)
		}
	}
	if sent.Load() != 377_001 {
		t.Errorf("%d bytes are counted", sent.Load())
	}
	for _, path := range []string{"/o/" + chunk.Sum(nil).Name(), "/have", "/o/" + ids[0].Name() + "/x"} {
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusTeapot {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// A node sends to two machines at a time. A third one is told that it is busy, and asks another node.
func TestKernelUploadsAreBounded(t *testing.T) {
	url, _, ids, _ := kernelSite(t, 64<<20) // more than the buffers of a connection
	get := func() *http.Response {
		t.Helper()
		res, err := http.Get(url + "/o/" + ids[0].Name())
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first, second, third := get(), get(), get()
	defer second.Body.Close()
	third.Body.Close()
	if first.StatusCode != 200 || second.StatusCode != 200 || third.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s, %s, %s", first.Status, second.Status, third.Status)
	}
	first.Body.Close() // the machine is gone
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		res := get()
		res.Body.Close()
		if res.StatusCode == 200 {
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatal("its place does not become free")
		}
	}
}
