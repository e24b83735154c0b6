package fleet

// SkipsFirmware reports whether a boot began without the machine's firmware. Its duration cannot be compared with that
// of a boot through firmware.
func SkipsFirmware(firmware string) bool {
	return firmware == string(MethodSoftReboot) || firmware == string(MethodKexec)
}
