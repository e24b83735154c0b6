package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page of images says what each way wrote, in its own first version, and what was aimed at.
func TestImagesPage(t *testing.T) {
	dir := t.TempDir()
	u := &update{lab: lab{dir: dir}, page: filepath.Join(dir, "page.md")}
	if err := u.writePage(); err == nil || !strings.Contains(err.Error(), "make bench-update") {
		t.Errorf("without results: %v", err)
	}
	r := &updateResult{Packages: []string{"a 1 -> 2", "b 1 -> 2"}, Kernel: "6.1", Image: 200e6, New: 50e6, Tree: 700e6,
		Ways: []wayResult{{Name: pandoWay, Whole: 200e6, Update: 50e6, Days: []int64{4e6, 100e3, 20e6}},
			{
				Name:   "casync",
				Whole:  250e6,
				Update: 75e6,
				Days:   []int64{5e6, 200e3, 30e6},
			}, {Name: wholeName, Whole: 180e6, Update: 190e6}},
		Steps: []dayResult{
			{What: "update of a", Packages: []string{"a 1 -> 2"}, Update: true},
			{What: "edit"},
			{What: "update of b", Update: true},
		}}
	if err := saveJSON(filepath.Join(dir, "update.json"), r); err != nil {
		t.Fatal(err)
	}
	if err := u.writePage(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(u.page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| pando | 200.0 | 50.0 | 25.0 % | 24.1 | 12.1 % | 20.00 | 10.0 % |",
		"| casync | 250.0 | 75.0 | 30.0 % | 35.2 | 14.1 % | 30.00 | 12.0 % |",
		"| squashfs-zstd, whole | 180.0 | 190.0 | 105.6 % | 570 (each whole) |",
		"2 packages without the kernel, to the compressed image (50.0 of 200.0 MB) | ≤ 0.38 | 0.25 | met |",
		"| ≤ 0.05 | 0.10 | **missed by 100 %** |",
		"| 3 | update of b | 0 | 20.00 | 30.00 |\n| 1 | update of a | 1 | 4.00 | 5.00 |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}
