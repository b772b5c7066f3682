package outside

import (
	"os/exec"
	"strconv"
	"syscall"
)

// shell returns the command as cmd.exe reads it, apart from our console's Ctrl-C.
func shell(command string) *exec.Cmd {
	cmd := exec.Command("cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /S /C "` + command + `"`, CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	return cmd
}

// killGroup ends a process and its children.
func killGroup(pid int) { exec.Command("taskkill", "/F", "/T", "/PID", strconv.Itoa(pid)).Run() }
