package apply

import (
	"fmt"
	"strings"
)

// Action is what was done to an object.
type Action string

// The actions.
const (
	Created    Action = "Created"
	Configured Action = "Configured"
	Unchanged  Action = "Unchanged"
	Deleted    Action = "Deleted"
	// Replaced is an object that was deleted to be made anew.
	Replaced Action = "Replaced"
	// Scaled is an object of somebody else's whose number of pods was changed.
	Scaled Action = "Scaled"
)

// Change is what was done to one object.
type Change struct {
	Action Action
	// Kind and Name are the object's.
	Kind, Name string
}

// ChangeSet is what was done to all objects of one request, in order.
type ChangeSet []Change

// Summary returns the action that describes the whole set, and one line that lists its changes, such as
// "Created Deployment web, Service web". Both are empty if nothing was changed.
func (s ChangeSet) Summary() (Action, string) {
	var actions []Action
	objects := map[Action][]string{}
	for _, c := range s {
		if c.Action == Unchanged {
			continue
		}
		if objects[c.Action] == nil {
			actions = append(actions, c.Action)
		}
		objects[c.Action] = append(objects[c.Action], c.Kind+" "+c.Name)
	}
	if len(actions) == 0 {
		return "", ""
	}
	parts := make([]string, len(actions))
	for i, a := range actions {
		parts[i] = fmt.Sprintf("%s %s", a, strings.Join(objects[a], ", "))
	}
	return actions[0], strings.Join(parts, "; ")
}
