package server

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Pictures are compared in fields of lookField pixels square. A field differs if a colour is off by more than lookApart
// of 255; lookMay percent of the fields may differ, because fonts and browsers draw a little differently.
const (
	lookField = 16
	lookApart = 20
	lookMay   = 4
)

// looksAsEver compares what the window shows with the stored picture of the page.
func (v *visit) looksAsEver(name string) {
	v.t.Helper()
	shot, err := v.Picture(v.ctx)
	if err != nil {
		v.t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		v.t.Fatal(err)
	}
	got := coarse(full)
	path := filepath.Join("testdata", "look", name+".png")
	if *update {
		var b bytes.Buffer
		if err := png.Encode(&b, got); err != nil {
			v.t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			v.t.Fatal(err)
		}
		return
	}
	f, err := os.Open(path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer f.Close()
	want, err := png.Decode(f)
	if err != nil {
		v.t.Fatal(err)
	}
	if got.Bounds() != want.Bounds() {
		v.t.Errorf("%s is %v, was %v", name, got.Bounds(), want.Bounds())
		return
	}
	if off, all := differing(got, want), got.Bounds().Dx()*got.Bounds().Dy(); off*100 > all*lookMay {
		kept := filepath.Join(os.TempDir(), "pando-look-"+name+".png")
		err := os.WriteFile(kept, shot, 0o644)
		v.t.Errorf(
			"%s looks otherwise than %s in %d of %d fields: %s, %v; if it shall, run the test with -update",
			name,
			path,
			off,
			all,
			kept,
			err,
		)
	}
}

// coarse returns a picture with one pixel per field.
func coarse(full image.Image) *image.RGBA {
	b := full.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, b.Dx()/lookField, b.Dy()/lookField))
	for y := range out.Bounds().Dy() {
		for x := range out.Bounds().Dx() {
			var sum [3]uint32
			for i := range lookField * lookField {
				r, g, b, _ := full.At(b.Min.X+x*lookField+i%lookField, b.Min.Y+y*lookField+i/lookField).RGBA()
				sum[0], sum[1], sum[2] = sum[0]+r>>8, sum[1]+g>>8, sum[2]+b>>8
			}
			out.SetRGBA(
				x,
				y,
				color.RGBA{
					uint8(sum[0] / (lookField * lookField)),
					uint8(sum[1] / (lookField * lookField)),
					uint8(sum[2] / (lookField * lookField)),
					255,
				},
			)
		}
	}
	return out
}

// differing counts the fields whose colours differ too much.
func differing(a *image.RGBA, b image.Image) (n int) {
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			for _, p := range [][2]uint32{{r1, r2}, {g1, g2}, {b1, b2}} {
				if max(p[0], p[1])-min(p[0], p[1]) > lookApart<<8 {
					n++
					break
				}
			}
		}
	}
	return n
}

// TestLookSeesADifference: pictures that differ in a band are different, those that differ by a shade are not.
func TestLookSeesADifference(t *testing.T) {
	page := func(from, to int, shade uint8) *image.RGBA {
		p := image.NewRGBA(image.Rect(0, 0, 320, 320))
		for i := range p.Pix {
			p.Pix[i] = 250
		}
		for y := from; y < to; y++ {
			for x := range 320 {
				p.SetRGBA(x, y, color.RGBA{shade, shade, shade, 255})
			}
		}
		return p
	}
	plain := coarse(page(0, 0, 0))
	if n := differing(coarse(page(100, 140, 240)), plain); n != 0 {
		t.Errorf("a shade: %d fields", n)
	}
	if n := differing(coarse(page(100, 140, 60)), plain); n*100 <= 400*lookMay {
		t.Errorf("a band: %d fields", n)
	}
}
