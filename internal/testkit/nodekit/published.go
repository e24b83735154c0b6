package nodekit

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/image"
)

// Published is the manifest of a version, its signature, and the public key of the signer.
type Published struct {
	Data, Signature []byte
	Key             string
}

// Publish returns a small signed version. change, which may be nil, modifies the manifest before it is signed.
func Publish(t T, change func(*image.Manifest)) Published {
	t.Helper()
	id := chunk.Sum([]byte("x"))
	man := image.Manifest{Format: 1, Architecture: runtime.GOARCH,
		Kernel: image.Kernel{Release: "6.1.0-1-amd64", Object: id, Size: 1},
		Root:   image.Root{FileSystem: "erofs", Index: id, Size: 1 << 20, ChunkSize: 64 << 10}}
	if change != nil {
		change(&man)
	}
	data, err := man.Encode()
	if err != nil {
		t.Fatal(err)
	}
	pub, priv, err := minisign.GenerateKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	return Published{Data: data, Signature: image.Sign(priv, data), Key: pub.String()}
}

// Serve starts a server for the manifest and signature, and returns its URL.
func (p Published) Serve(t T) string {
	t.Helper()
	name := "/m/" + strings.TrimPrefix(string(image.Version(p.Data)), "sha256:")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case name:
			_, _ = w.Write(p.Data)
		case name + ".minisig":
			_, _ = w.Write(p.Signature)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
