package apply

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"huolala.cn/app-operator/internal/describe"
	"huolala.cn/app-operator/internal/message"
)

// Action is the kind of a change of an object.
type Action string

// The actions.
const (
	Created    Action = "Created"
	Configured Action = "Configured"
	// Repaired is an object that was written although nothing new was wanted: another writer had changed it.
	Repaired  Action = "Repaired"
	Unchanged Action = "Unchanged"
	Deleted   Action = "Deleted"
	// Replaced is an object that was deleted to be recreated.
	Replaced Action = "Replaced"
	// Scaled is an object of another owner whose number of pods was changed.
	Scaled Action = "Scaled"
)

// Change is the change of one object, or the change that a run would make.
type Change struct {
	Action Action
	// Kind and Name are the object's.
	Kind, Name string
	// Fields are the fields that change, in short and without values.
	Fields []string
	// By names the field managers that had made the change that is repaired, empty if they are not known.
	By string
	// Times is how often the object was repaired within an hour, 0 if that is not often.
	Times int
	// Overridden is the message about stated fields that the API server did not keep, empty without any. RetryAfter is when they are
	// written again.
	Overridden string
	RetryAfter time.Duration
	// TemplateChanged is true if the pod template changes, and the pods with it.
	TemplateChanged bool
	// Removed are the fields that an adoption removes from the object, Kept the unstated fields that it leaves.
	Removed, Kept []string
}

// ChangeSet has the changes of all objects of one request, in order.
type ChangeSet []Change

// Overridden returns a message about the stated fields that the API server did not keep, and when they are written again. The message is empty
// if there are none.
func (s ChangeSet) Overridden() (message string, retry time.Duration) {
	var messages []string
	for _, c := range s {
		if c.Overridden == "" {
			continue
		}
		messages = append(messages, c.Overridden)
		if retry == 0 || c.RetryAfter > 0 && c.RetryAfter < retry {
			retry = c.RetryAfter
		}
	}
	return strings.Join(messages, " "), retry
}

// Waits reports whether anything would change.
func (s ChangeSet) Waits() bool {
	return slices.ContainsFunc(s, func(c Change) bool { return c.Action != Unchanged })
}

// Summary returns the action that describes the whole set, and one line that lists its changes, such as
// "Created Deployment web, Service web" or "Configured Deployment web: image". Both are empty if nothing was changed.
func (s ChangeSet) Summary() (Action, string) {
	var actions []Action
	lines := map[Action][]string{}
	for _, c := range s {
		if c.Action == Unchanged {
			continue
		}
		if lines[c.Action] == nil {
			actions = append(actions, c.Action)
		}
		lines[c.Action] = append(lines[c.Action], c.describeChange())
	}
	if len(actions) == 0 {
		return "", ""
	}
	var parts []string
	for _, a := range actions {
		separator := ", "
		if strings.Contains(strings.Join(lines[a], ""), ":") {
			separator = fmt.Sprintf("; %s ", a)
		}
		parts = append(parts, fmt.Sprintf("%s %s", a, strings.Join(lines[a], separator)))
	}
	return actions[0], strings.Join(parts, "; ")
}

// plainManagers are names of field managers that cannot be taken for other words of a message.
var plainManagers = regexp.MustCompile(`^[A-Za-z0-9._/:@-]+(, [A-Za-z0-9._/:@-]+)*$`)

// quoteManager returns the names of field managers, which any writer chooses, in quotes unless they are plain.
func quoteManager(names string) string {
	if plainManagers.MatchString(names) {
		return names
	}
	return message.Quote(strconv.Quote(names))
}

// describeChange describes the change without its action.
func (c *Change) describeChange() string {
	line := c.Kind + " " + c.Name
	var details []string
	if len(c.Fields) > 0 {
		details = append(details, strings.Join(cutFields(c.Fields, maxFields), ", "))
	}
	if c.By != "" {
		details = append(details, "changed by "+quoteManager(c.By))
	}
	if c.Times > 0 {
		details = append(details, fmt.Sprintf("repaired %d times in an hour", c.Times))
	}
	if len(details) > 0 {
		line += ": " + strings.Join(details, ", ")
	}
	return line
}

// describeDifference states in a change which fields differ between two states of an object.
func (e *Engine) describeDifference(change *Change, manager string, before, after client.Object) error {
	found, err := describe.Compare(e.comparer, manager, before, after, change.Action == Repaired)
	if err != nil {
		return err
	}
	change.Fields, change.Removed, change.TemplateChanged = found.Fields, found.Removed, found.TemplateChanged
	return nil
}

// maxFields limits how many fields the line of a change names.
const maxFields = 5

// cutFields returns the first fields of a list.
func cutFields(all []string, most int) []string {
	if len(all) > most {
		return append(slices.Clone(all[:most]), "...")
	}
	return all
}
