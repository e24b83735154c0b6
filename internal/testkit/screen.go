package testkit

import (
	"bufio"
	"context"
	"fmt"
	"image"
	"image/color"
	"io"
	"os"
	"path/filepath"
)

// Screenshot returns the content of the machine's screen. MachineConfig.Screen must be set.
func (m *Machine) Screenshot(ctx context.Context) (*image.RGBA, error) {
	file := filepath.Join(m.Config.Dir, m.Config.Name+".ppm")
	if err := m.command(ctx, "screendump", map[string]any{"filename": file}); err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("machine %s: screenshot: %w", m.Config.Name, err)
	}
	defer f.Close()
	defer os.Remove(file)
	shot, err := decodePPM(f)
	if err != nil {
		return nil, fmt.Errorf("machine %s: screenshot: %w", m.Config.Name, err)
	}
	return shot, nil
}

// maxScreen bounds a screen in each direction, in pixels.
const maxScreen = 16384

// decodePPM decodes a picture in QEMU's format: binary PPM (netpbm's ppm(5)) with 8 bits and without comments.
func decodePPM(r io.Reader) (*image.RGBA, error) {
	in := bufio.NewReader(r)
	var width, height, deepest int
	if _, err := fmt.Fscanf(in, "P6\n%d %d\n%d\n", &width, &height, &deepest); err != nil {
		return nil, fmt.Errorf("read PPM: %w", err)
	}
	if width < 1 || height < 1 || width > maxScreen || height > maxScreen || deepest != 255 {
		return nil, fmt.Errorf("read PPM: %d x %d pixels of up to %d", width, height, deepest)
	}
	shot := image.NewRGBA(image.Rect(0, 0, width, height))
	row := make([]byte, 3*width)
	for y := range height {
		if _, err := io.ReadFull(in, row); err != nil {
			return nil, fmt.Errorf("read PPM: row %d: %w", y, err)
		}
		for x := range width {
			shot.SetRGBA(x, y, color.RGBA{row[3*x], row[3*x+1], row[3*x+2], 255})
		}
	}
	return shot, nil
}

// Colours counts the colours of a picture. A black screen, or one with text, has few.
func Colours(shot *image.RGBA) int {
	seen := map[color.RGBA]bool{}
	for y := shot.Rect.Min.Y; y < shot.Rect.Max.Y; y++ {
		for x := shot.Rect.Min.X; x < shot.Rect.Max.X; x++ {
			seen[shot.RGBAAt(x, y)] = true
		}
	}
	return len(seen)
}
