package view

import (
	"slices"
	"strconv"
	"strings"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Suggestion is the action that helps most, if one of the plug-in's commands does.
type Suggestion struct {
	// Do is the command, Value its argument: the number of a revision, or the UID of a canary.
	Do    string `json:"do"`
	Value string `json:"value,omitempty"`
	// Version is the version that runs afterwards, empty if the action does not choose one.
	Version string `json:"version,omitempty"`
	// Command is the command line.
	Command string `json:"command"`
	// Effect is the result of the action in a few words.
	Effect string `json:"effect"`
}

// The commands that are suggested, and their effects.
const (
	doRollback, effectRollback = "rollback", "returns to what serves"
	doResume, effectResume     = "resume", "writes what waits"
	effectStart                = "starts its runs again"
	doUnhold, effectUnhold     = "unhold", "lets the spec take effect"
	doPromote, effectPromote   = "promote", "rolls the change out to all pods"
	doAbort, effectAbort       = "abort", "removes the canary"
)

// suggestAction returns the action that helps most in the state of the resource, nil if none does. A resource that is applied from Git has none but
// those that are not in Git.
func (s *Snapshot) suggestAction(reason string) *Suggestion {
	g := s.suggestionFor(reason)
	if g == nil {
		return nil
	}
	var flags []string
	if g.Do == doRollback {
		flags = []string{"--to", g.Value}
	}
	g.Command = s.Resource.PluginCommand(g.Do, flags...)
	return g
}

func (s *Snapshot) suggestionFor(reason string) *Suggestion {
	r := &s.Resource
	kind, _ := KindOf(r.Kind)
	switch {
	case reason == appv1.ReasonSuspended:
		return &Suggestion{Do: doResume, Effect: effectStart}
	case reason == appv1.ReasonPaused:
		return &Suggestion{Do: doResume, Effect: effectResume}
	case reason == appv1.ReasonHeld && r.HeldAt() != "":
		return &Suggestion{Do: doUnhold, Effect: effectUnhold}
	case reason == appv1.ReasonCanary && r.Canary != nil && r.CanaryReady():
		return &Suggestion{Do: doPromote, Value: string(r.Canary.UID), Version: VersionOf(r.Canary.Image), Effect: effectPromote}
	case reason == appv1.ReasonCanary && r.Canary != nil:
		return &Suggestion{Do: doAbort, Value: string(r.Canary.UID), Effect: effectAbort}
	case !kind.Scales || r.Paused || r.HeldAt() != "" || r.GitOps() != "" || !advices[reason].spec:
		return nil
	}
	back, sameSpec := s.servingRevision()
	if back == 0 || sameSpec { // A rollback to the same spec changes nothing.
		return nil
	}
	groups := s.podGroups()
	at := slices.IndexFunc(groups, func(g podGroup) bool { return g.revision == back })
	if at < 0 {
		return nil
	}
	return &Suggestion{Do: doRollback, Value: strconv.FormatInt(back, 10), Version: VersionOf(groups[at].image), Effect: effectRollback}
}

// withoutCommand returns the lines of an advice but the line whose only command is that of the suggestion, which a button carries out.
func (g *Suggestion) withoutCommand(advice []string) []string {
	if g == nil {
		return advice
	}
	return slices.DeleteFunc(slices.Clone(advice), func(line string) bool { return strings.HasSuffix(strings.TrimSuffix(line, "."), ": "+g.Command) })
}
