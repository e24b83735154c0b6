package lastboot

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/image"
)

// published is a signed version and a server that has it.
type published struct {
	data, signature []byte
	key             string
}

func publish(t *testing.T, change func(*image.Manifest)) published {
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
	return published{data: data, signature: image.Sign(priv, data), key: pub.String()}
}
