package testkit

import (
	"image/color"
	"strings"
	"testing"
)

func TestDecodePPM(t *testing.T) {
	shot, err := decodePPM(strings.NewReader("P6\n2 2\n255\n\x01\x02\x03\xff\x00\x00\x00\xff\x00\x01\x02\x03"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		x, y int
		c    color.RGBA
	}{{0, 0, color.RGBA{1, 2, 3, 255}}, {1, 0, color.RGBA{255, 0, 0, 255}}, {0, 1, color.RGBA{0, 255, 0, 255}}} {
		if got := shot.RGBAAt(want.x, want.y); got != want.c {
			t.Errorf("pixel %d, %d is %v, want %v", want.x, want.y, got, want.c)
		}
	}
	if n := Colours(shot); n != 3 {
		t.Errorf("%d colours, want 3", n)
	}
	for name, text := range map[string]string{
		"nothing":      "",
		"another form": "P5\n1 1\n255\n\x00",
		"cut short":    "P6\n2 2\n255\n\x01\x02\x03",
		"no pixels":    "P6\n0 9\n255\n",
		"too large":    "P6\n99999 99999\n255\n",
		"16 bits":      "P6\n1 1\n65535\n\x00\x00\x00\x00\x00\x00",
	} {
		if _, err := decodePPM(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
