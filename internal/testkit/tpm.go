package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func (m *Machine) tpmSocket() string { return filepath.Join(m.Config.Dir, m.Config.Name+".tpm") }

// startTPM starts swtpm, the machine's TPM. It ends together with QEMU.
func (m *Machine) startTPM() error {
	if m.Config.TPM == "" {
		return nil
	}
	if err := os.MkdirAll(m.Config.TPM, 0o700); err != nil {
		return err
	}
	_ = os.Remove(m.tpmSocket()) // left by an earlier machine of this name
	c := exec.Command(
		"swtpm",
		"socket",
		"--tpm2",
		"--terminate",
		"--tpmstate",
		"dir="+m.Config.TPM,
		"--ctrl",
		"type=unixio,path="+m.tpmSocket(),
	)
	if err := c.Start(); err != nil {
		return fmt.Errorf("start a TPM: %w", err)
	}
	go func() { _ = c.Wait() }() // its status says only that the machine is off
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(m.tpmSocket()); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the TPM does not listen at %s", m.tpmSocket())
}

func (m *Machine) tpmArgs() []string {
	if m.Config.TPM == "" {
		return nil
	}
	return []string{
		"-chardev",
		"socket,id=tpm,path=" + m.tpmSocket(),
		"-tpmdev",
		"emulator,id=tpm0,chardev=tpm",
		"-device",
		"tpm-crb,tpmdev=tpm0",
	}
}
