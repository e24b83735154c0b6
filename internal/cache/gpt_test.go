package cache

import (
	"errors"
	"slices"
	"testing"
)

func TestPartitions(t *testing.T) {
	for _, sectorSize := range []int{512, 4096} {
		m := newMemory(96 << 20)
		if _, err := ReadPartitions(m, m.size(), sectorSize); !errors.Is(err, ErrNoTable) {
			t.Errorf("an empty disk: %v", err)
		}
		from, to := Usable(m.size(), sectorSize)
		want := []Partition{
			{Type: TypeEFISystem, ID: GUID{1}, Start: from, Size: 8 << 20, Name: "EFI system", Attributes: 4},
			{Type: TypeCache, ID: GUID{2}, Start: 12 << 20, Size: to - 12<<20, Name: PartitionName}}
		if err := WritePartitions(m, m.size(), sectorSize, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadPartitions(m, m.size(), sectorSize); err != nil || !slices.Equal(got, want) {
			t.Errorf("sectors of %d: %+v, %v", sectorSize, got, err)
		}
		clear(m.now[:1<<20])
		if got, err := ReadPartitions(m, m.size(), sectorSize); err != nil || !slices.Equal(got, want) {
			t.Errorf("sectors of %d, the table at the back: %+v, %v", sectorSize, got, err)
		}
		s := Section{m, want[1].Start}
		if err := Format(s, want[1].Size); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(s, want[1].Size, Options{}); err != nil {
			t.Errorf("the cache in a partition: %v", err)
		}
		if got, err := ReadPartitions(m, m.size(), sectorSize); err != nil || len(got) != 2 {
			t.Errorf("the cache reaches beyond its partition: %v, %v", got, err)
		}
	}
}

func TestPartitionsThatDoNotFit(t *testing.T) {
	m := newMemory(96 << 20)
	from, to := Usable(m.size(), 512)
	good := Partition{Type: TypeCache, Start: from, Size: 64 << 20}
	for name, parts := range map[string][]Partition{
		"before the first": {{Type: TypeCache, Start: 512, Size: 1 << 20}},
		"beyond the last":  {{Type: TypeCache, Start: from, Size: to}},
		"odd":              {{Type: TypeCache, Start: from + 1, Size: 1 << 20}},
		"empty":            {{Type: TypeCache, Start: from}},
		"overlap":          {good, {Type: TypeCache, Start: from + 63<<20, Size: 4 << 20}},
		"name": {{Type: TypeCache, Start: from, Size: 1 << 20,
			Name: "0123456789012345678901234567890123456"}},
	} {
		if WritePartitions(m, m.size(), 512, parts) == nil {
			t.Errorf("%s: it is written", name)
		}
	}
	if WritePartitions(m, m.size(), 1000, nil) == nil {
		t.Error("sectors of 1000 bytes are taken")
	}
}
