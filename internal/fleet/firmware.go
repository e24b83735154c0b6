package fleet

// SkipsFirmware reports whether a boot began without the machine's firmware. The time that it took cannot be compared
// with that of a boot by firmware.
func SkipsFirmware(firmware string) bool {
	return firmware == string(MethodSoftReboot) || firmware == string(MethodKexec)
}
