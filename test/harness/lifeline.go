package harness

import (
	"os"
	"strconv"
	"sync"
	"syscall"
)

// lifelineVariable names the file descriptor of the lifeline in the environment of the servers, as in hack/cluster/process.go.
const lifelineVariable = "APP_OPERATOR_CLUSTER_LIFELINE"

// lifeline opens a pipe, once. All processes that the test process starts from then on inherit the reading end, and the test process alone has the writing
// end. The servers of hack/cluster read the end of the file, and end themselves, after each end of the test process: Ctrl-C, a panic, the time limit of
// go test, or SIGKILL. The function keeps its result, so the writing end stays open.
var lifeline = sync.OnceValues(func() (writingEnd *os.File, err error) {
	readingEnd, writingEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	inherited, err := syscall.Dup(int(readingEnd.Fd())) // The files of os.Pipe are closed in a process that starts.
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if err := readingEnd.Close(); err != nil {
		return nil, err
	}
	return writingEnd, os.Setenv(lifelineVariable, strconv.Itoa(inherited))
})
