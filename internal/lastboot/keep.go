package lastboot
