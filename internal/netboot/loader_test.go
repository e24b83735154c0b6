package netboot

import (
	"strings"
	"testing"
)

func TestBootFile(t *testing.T) {
	loaders := Loaders{
		ClassBIOS:  "undionly.kpxe",
		ClassX64:   "snponly.efi",
		ClassIA32:  "ia32.efi",
		ClassARM64: "arm64.efi",
	}
	const base = "http://10.0.0.1:8480"
	good := Features{FeatureHTTP, FeatureBzImage, FeatureEFI}
	tests := []struct {
		client Client
		want   string // after "!": the error has it
	}{
		{Client{Kind: PXE, Arch: BIOS}, "undionly.kpxe"},
		{Client{Kind: PXE, Arch: EFIIA32}, "ia32.efi"},
		{Client{Kind: PXE, Arch: EFIX64}, "snponly.efi"},
		{Client{Kind: PXE, Arch: EFIX64EBC}, "snponly.efi"},
		{Client{Kind: PXE, Arch: EFIARM64}, "arm64.efi"},
		{Client{Kind: HTTPBoot, Arch: HTTPX64}, base + "/boot/file/snponly.efi"},
		{Client{Kind: HTTPBoot, Arch: HTTPARM64}, base + "/boot/file/arm64.efi"},
		{Client{Kind: IPXE, Arch: BIOS, Features: good}, base + "/boot/script"},
		{Client{Kind: IPXE, Arch: EFIX64, Features: good}, base + "/boot/script"},
		{Client{Kind: IPXE, Arch: EFIX64, Features: Features{FeatureHTTP}}, "snponly.efi"},
		{Client{Kind: IPXE, Arch: BIOS}, "undionly.kpxe"},
		{Client{Kind: Init}, ""},
		{Client{Kind: Other, Arch: EFIX64}, ""},
		{Client{Kind: PXE, Arch: 12}, "!architecture 12"},
		{Client{Kind: PXE, Arch: 65535}, "!architecture 65535"},
	}
	for _, tt := range tests {
		got, err := BootFile(tt.client, loaders, base)
		if want, isErr := strings.CutPrefix(tt.want, "!"); isErr {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("BootFile(%+v) error = %v, want one with %q", tt.client, err, want)
			}
		} else if got != tt.want || err != nil {
			t.Errorf("BootFile(%+v) = %q, %v, want %q", tt.client, got, err, tt.want)
		}
	}
}

func TestBootFileMissingLoaderSaysWhichFile(t *testing.T) {
	for _, class := range Classes() {
		if len(Candidates(class)) == 0 {
			t.Errorf("no candidates for %s", class)
		}
	}
	_, err := BootFile(Client{Kind: PXE, Arch: EFIX64}, nil, "http://10.0.0.1:8480")
	if err == nil || !strings.Contains(err.Error(), "snponly.efi") {
		t.Errorf("error = %v, want one that names snponly.efi", err)
	}
	_, err = BootFile(Client{Kind: PXE, Arch: EFIARM64}, nil, "http://10.0.0.1:8480")
	if err == nil || !strings.Contains(err.Error(), "ipxe-arm64.efi") || !strings.Contains(err.Error(), "Debian 13") {
		t.Errorf("error = %v, want one that names ipxe-arm64.efi and Debian 13", err)
	}
}
