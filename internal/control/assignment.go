package control

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/fleet"
)

// CheckAssignment verifies that the server signed this assignment for this boot.
func CheckAssignment(resp api.RegisterResponse, cfg api.BootConfig) (fleet.Assignment, error) {
	a, err := VerifyAssignment(resp.Assignment, resp.Signature, cfg.ServerKey)
	switch {
	case err != nil:
		return a, err
	case a.Boot != cfg.Boot:
		return a, fmt.Errorf("check assignment: it is for boot %s, this is %s", a.Boot, cfg.Boot)
	case a.Node == "" || resp.Session == "":
		return a, errors.New("check assignment: it names no node, or comes without a session")
	}
	return a, nil
}

// VerifyAssignment verifies that the server signed an assignment. The assignment may be for any boot.
func VerifyAssignment(data, signature []byte, serverKey string) (fleet.Assignment, error) {
	var a fleet.Assignment
	key, err := base64.StdEncoding.DecodeString(serverKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return a, errors.New("check assignment: the pinned server key is not a key")
	}
	if !ed25519.Verify(key, append([]byte(api.AssignmentContext), data...), signature) {
		return a, errors.New("check assignment: wrong signature")
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("check assignment: %w", err)
	}
	if a.Format != 1 {
		return a, fmt.Errorf("check assignment: format %d, this agent knows 1", a.Format)
	}
	_, err = fleet.ParseDigest(string(a.Version))
	return a, err
}
