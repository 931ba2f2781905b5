package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/reconciler"
)

// maxTaken is how many objects of others one message has in full.
const maxTaken = 8

// isTaken reports whether an error means that an object of others has the name of a child.
func isTaken(err error) bool {
	var stalled *reconciler.StalledError
	return errors.As(err, &stalled) && stalled.Reason == appv1.ReasonResourceExists
}

// noteTaken notes which objects of others have the names of children, by the errors of the children and their trouble.
func (o *Outcomes) noteTaken(errs []error) {
	for i := range o.Objects {
		for _, err := range []error{errs[i], o.Objects[i].Err} {
			var stalled *reconciler.StalledError
			if isTaken(err) && errors.As(err, &stalled) && !slices.Contains(o.taken, stalled.Message) {
				o.taken = append(o.taken, stalled.Message)
			}
		}
	}
}

// nameTaken returns an error about an object of others that has the name of a child as an error about all such objects: a user who removes one
// obstacle is not to find the next one. Any other error stays as it is.
func (o *Outcomes) nameTaken(err error) error {
	var stalled *reconciler.StalledError
	if len(o.taken) < 2 || !isTaken(err) || !errors.As(err, &stalled) {
		return err
	}
	all := *stalled
	all.Message = strings.Join(o.taken[:min(len(o.taken), maxTaken)], ". ")
	if more := len(o.taken) - maxTaken; more > 0 {
		all.Message += fmt.Sprintf(messageMoreTaken, more)
	}
	return &all
}
