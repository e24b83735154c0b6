package cache

import (
	"encoding/hex"
	"testing"

	"pando/internal/chunk"
)

// TestBytes checks the format of docs/formats/cache.md: a release reads what an earlier one wrote.
func TestBytes(t *testing.T) {
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	tab := table{generation: 0x0102, entries: []entry{{keyOf(chunk.Sum([]byte("abc"))), 5000, 3, chunk.SHA256}}}
	for name, x := range map[string]struct {
		got  []byte
		want string
	}{
		"superblock": {super{id: id, size: MinSize, sequence: 1}.encode()[:superSize],
			"504e444341434845" + "01000000" + "00004000" + "0102030405060708090a0b0c0d0e0f10" + "0000000400000000" +
				"0100000000000000" + "000000000000000000000000" + "67a1e67c"},
		"table": {tab.encodeSector(id, 0)[:32], "40301072" + "0100" + "0000" + "0201000000000000" +
			"ba7816bf8f01cfea" + "88130000" + "0300" + "01" + "00"},
		"record": {record{"k", 2, []byte("xy")}.encode(id)[:48],
			"504e4452" + "f7e33f71" + "02000000" + "01000000" + "0200000000000000" + "0000000000000000" +
				"6b000000000000000000000000000000"},
	} {
		if got := hex.EncodeToString(x.got); got != x.want {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
	l, err := newLayout(8 << 30)
	if err != nil || l.segments != 2043 || l.dataAt() != 16<<20 || l.copyAt() != 8<<30-4096 ||
		l.tableAt(1) != 64<<10+4<<20+4096 {
		t.Errorf("layout of 8 GiB: %+v, data at %d, %v", l, l.dataAt(), err)
	}
	if recordAt(1, 1) != 64<<10+3*128<<10 {
		t.Errorf("record 1, second copy: at %d", recordAt(1, 1))
	}
}
