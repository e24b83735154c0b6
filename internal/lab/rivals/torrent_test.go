package rivals

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"
)

func TestTorrent(t *testing.T) {
	content := bytes.Repeat([]byte("x"), torrentPiece+1)
	got, err := newTorrent("file", int64(len(content)), bytes.NewReader(content), "http://t/announce")
	if err != nil {
		t.Fatal(err)
	}
	one, two := sha1.Sum(content[:torrentPiece]), sha1.Sum(content[torrentPiece:])
	info := fmt.Sprintf("d6:lengthi262145e4:name4:file12:piece lengthi262144e6:pieces40:%s%se", one[:], two[:])
	if want := "d8:announce17:http://t/announce4:info" + info + "e"; string(got.file) != want ||
		got.hash != sha1.Sum([]byte(info)) {
		t.Errorf("got %q", got.file)
	}
	if got := (torrent{hash: [sha1.Size]byte{'Q', ' ', '+', '&',
		0xff}}).Escaped(); got != "%51%20%2b%26%ff"+strings.Repeat(
		"%00",
		15,
	) {
		t.Errorf("a hash in a URL: got %s", got)
	}
}
