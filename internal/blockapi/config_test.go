package blockapi

import (
	"testing"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

func TestBlockConfigValidate(t *testing.T) {
	good := goodConfig()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no index":     func(c *Config) { c.Index.Algorithm, c.Index.Sum = 0, [32]byte{} },
		"no size":      func(c *Config) { c.Size = 0 },
		"odd size":     func(c *Config) { c.Size = 4097 },
		"no chunks":    func(c *Config) { c.ChunkSize = 0 },
		"large pack":   func(c *Config) { c.Pack = make([]byte, bootpack.MaxSize+1) },
		"no servers":   func(c *Config) { c.Servers = nil },
		"server name":  func(c *Config) { c.Servers = []string{"http://pando.example:8480"} },
		"server https": func(c *Config) { c.Servers = []string{"https://192.0.2.1:8480"} },
		"no URL":       func(c *Config) { c.Servers = []string{"192.0.2.1"} },
	} {
		c := goodConfig()
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func goodConfig() Config {
	return Config{
		Index:     chunk.Sum([]byte("x")),
		Size:      1 << 20,
		ChunkSize: 65536,
		Servers:   []string{"http://192.0.2.1:8480"},
	}
}
