package nodekit

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
)

// SignedAssignment returns a server's reply to a registration, and the boot config of the boot.
func SignedAssignment(t T, change func(*fleet.Assignment)) (api.RegisterResponse, api.BootConfig) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	a := fleet.Assignment{Format: 1, Boot: "0011223344556677", Node: "pc001",
		Version: fleet.Digest("sha256:" + strings.Repeat("ab", 32))}
	if change != nil {
		change(&a)
	}
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	cfg := api.BootConfig{Boot: "0011223344556677",
		ServerKey: base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))}
	sig := ed25519.Sign(key, append([]byte(api.AssignmentContext), b...))
	return api.RegisterResponse{Session: "s", Assignment: b, Signature: sig}, cfg
}
