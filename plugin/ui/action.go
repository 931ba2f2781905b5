package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"huolala.cn/app-operator/plugin/view"
)

// Actor changes the cluster as the user.
type Actor interface {
	// CheckAllowed returns why the user may not change resources of a kind in a namespace, nil if nothing is known to be in the way.
	CheckAllowed(ctx context.Context, kind view.Kind, namespace string) error
	// ProposeAction returns the plan of an action without changing anything.
	ProposeAction(ctx context.Context, a Action) (*Proposal, error)
	// PerformAction carries an action out if the resource is still as it was proposed, by its resource version. Otherwise it returns ErrChanged.
	PerformAction(ctx context.Context, a Action, version string) error
	// PlanText returns the plan of applying resources in YAML, without changing anything. The answer has no version.
	PlanText(ctx context.Context, text string) (*Proposal, error)
}

// ErrChanged is the error for a resource that has changed since an action on it was proposed.
var ErrChanged = errors.New("changed meanwhile")

// ErrUnclear is the error for an action without an answer, or with one that does not say whether it was done.
var ErrUnclear = errors.New("the API server has not answered as expected")

// ErrPartial is the error for an action that failed after a part of it was done.
var ErrPartial = errors.New("only a part was done")

// The actions.
const (
	Pause    = "pause"
	Suspend  = "suspend"
	Resume   = "resume"
	Refresh  = "refresh"
	Restart  = "restart"
	Scale    = "scale"
	Hold     = "hold"
	Unhold   = "unhold"
	Rollback = "rollback"
	Promote  = "promote"
	Abort    = "abort"
)

// Action is a change of a resource.
type Action struct {
	Kind            view.Kind
	Namespace, Name string
	// Do is one of the actions.
	Do string
	// Value is the number of pods of a Scale, the name of a ReplicaSet or last-good of a Hold, the number of the revision of a Rollback,
	// and the UID of the canary of a Promote or an Abort.
	Value string
}

// Proposal is the plan of an action.
type Proposal struct {
	// Version is the resource version of the resource.
	Version string
	// Text is the plan, in lines, Summary the effects in a sentence, Rows the objects and fields.
	Text, Summary string
	Rows          []view.PlanRow
	// Pods is how many pods restart, Promoted how many once a canary is promoted. Unknown is why there may be more, empty if all are known. Paused is how
	// many resources have to be resumed before any pod restarts, 0 if a pod may restart at once.
	Pods, Promoted int
	Unknown        string
	Paused         int
	// To is the version that runs afterwards, empty if the action does not choose one. Command is the same as a command line.
	To, Command string
	// Blocked is the obstacle to the change, empty without one.
	Blocked string
}

// verbs are the actions in words, as a button has them.
var verbs = map[string]string{
	Pause: "Pause", Suspend: "Suspend", Resume: "Resume", Refresh: "Refresh", Restart: "Restart", Scale: "Scale", Hold: "Hold", Unhold: "Let the spec take effect", Rollback: "Roll back",
	Promote: "Promote the canary", Abort: "Remove the canary",
}

// offer is a link to an action, or a form where the action needs a value. Why is the reason why the action is unavailable, empty if it is
// available.
type offer struct {
	Do, Verb, Value, Why string
	// About describes the value, empty for none.
	About string
	// First is true for the action that helps most.
	First bool
}

// actionLabel returns an action in words, with the version that runs afterwards if that is known.
func actionLabel(do, value, version string) string {
	switch {
	case do == Rollback && version != "", do == Hold && version != "":
		return map[string]string{Rollback: "Roll back to ", Hold: "Hold "}[do] + version
	case do == Rollback:
		return verbs[do] + " to revision " + value
	case do == Scale:
		return verbs[do] + " to " + value
	case do == Hold && value == view.LastGood:
		return verbs[do] + " the last good revision"
	}
	return verbs[do]
}

// notePlanOfNow is the end of a problem that the plan of now follows.
const notePlanOfNow = " This is the plan of now."

// noteDone is the message on an action that was carried out.
const noteDone = "Done: %s. The operator carries it out now."

// The reasons why an action is unavailable.
const (
	whyDeleting    = "The resource is being deleted."
	whyNoWorkload  = "There is no Deployment yet, so there are no pods to restart."
	whyNothingGood = "No revision with a record of its spec has been ready yet."
)

// offersOf returns the actions that suit the state of a resource.
func offersOf(kind view.Kind, s *view.Snapshot) []offer {
	r := &s.Resource
	var found []offer
	deleting := ""
	if r.ObjectMeta.DeletionTimestamp != nil {
		deleting = whyDeleting
	}
	add := func(do, value, why string) {
		found = append(found, offer{Do: do, Verb: verbs[do], Value: value, Why: cmp.Or(deleting, why)})
	}
	if r.Paused || r.IsSuspended() {
		add(Resume, "", "")
	}
	if r.Schedule != nil && !r.IsSuspended() {
		add(Suspend, "", "")
	}
	if !r.Paused {
		add(Pause, "", "")
	}
	if r.CanRefresh() {
		add(Refresh, "", "")
	}
	if len(r.Workloads) > 0 {
		why := ""
		if s.LacksWorkloads() {
			why = whyNoWorkload
		}
		add(Restart, "", why)
	}
	if r.Canary != nil && hasAction(kind, Promote) {
		why := ""
		if obstacle := r.PromotionObstacle(); obstacle != "" {
			why = obstacle + "."
		}
		add(Promote, string(r.Canary.UID), why)
		add(Abort, string(r.Canary.UID), "")
	}
	switch {
	case !hasAction(kind, Hold):
	case r.HeldAt() != "":
		add(Unhold, "", "")
	case r.Serving != nil:
		why := ""
		if r.LastGood == "" {
			why = whyNothingGood
		}
		add(Hold, view.LastGood, why)
		found[len(found)-1].About = r.LastGoodInWords()
		if r.LastGoodImage != "" {
			found[len(found)-1].Verb = actionLabel(Hold, view.LastGood, view.VersionOf(r.LastGoodImage))
		}
	}
	if hasAction(kind, Scale) && (r.Serving == nil || r.Serving.Autoscaling == nil) {
		add(Scale, strconv.FormatInt(int64(r.WantedPods()), 10), "")
	}
	return found
}

// withFirst returns the offers with the suggested action at the beginning.
func withFirst(kind view.Kind, offers []offer, suggested *view.Suggestion) []offer {
	if suggested == nil || !hasAction(kind, suggested.Do) {
		return offers
	}
	first := offer{Do: suggested.Do, Verb: actionLabel(suggested.Do, suggested.Value, suggested.Version), Value: suggested.Value, About: suggested.Effect, First: true}
	if at := slices.IndexFunc(offers, func(o offer) bool { return o.Do == suggested.Do }); at >= 0 {
		first.Why = offers[at].Why
		offers = slices.Delete(offers, at, at+1)
	}
	return append([]offer{first}, offers...)
}

// hasAction reports whether a kind of resources has an action.
func hasAction(kind view.Kind, do string) bool {
	switch do {
	case Hold, Unhold, Promote, Abort:
		return kind.Holds
	case Suspend:
		return kind.Scheduled
	case Restart, Refresh: // Of a Task, no pod serves.
		return !kind.Scheduled
	case Scale, Rollback: // A kind with several numbers of pods has several histories.
		return kind.Scales
	}
	return verbs[do] != ""
}

// parseAction returns the action in a request's address, false for an action that the kind does not have.
func parseAction(r *http.Request) (Action, bool) {
	kind, known := view.KindOf(r.PathValue("kind"))
	a := Action{Kind: kind, Namespace: r.PathValue("namespace"), Name: r.PathValue("name"), Do: r.PathValue("action"), Value: r.FormValue("value")}
	return a, known && hasAction(kind, a.Do)
}

// checkValue returns the error in the value of an action, empty for a valid value.
func (a *Action) checkValue() string {
	switch a.Do {
	case Scale:
		if n, err := strconv.ParseInt(a.Value, 10, 32); err != nil || n < 0 || a.Value != strconv.FormatInt(n, 10) {
			return "The number of pods must be a whole number from 0."
		}
	case Rollback:
		if n, err := strconv.ParseInt(a.Value, 10, 64); err != nil || n < 1 || a.Value != strconv.FormatInt(n, 10) {
			return "Choose a revision of the history."
		}
	case Hold:
		if a.Value == "" {
			return "Choose a revision of the history, or last-good."
		}
	case Promote, Abort:
		if a.Value == "" {
			return "Choose the canary on the page of the resource."
		}
	}
	return ""
}

// actionPage shows the plan of an action, with the button that carries it out.
func (s *Server) actionPage(w http.ResponseWriter, r *http.Request) {
	a, known := parseAction(r)
	if !known {
		s.noPage(w, r)
		return
	}
	s.proposeAction(w, r, a, http.StatusOK, "")
}

// proposeAction answers with the plan of an action. problem is the error of an earlier attempt.
func (s *Server) proposeAction(w http.ResponseWriter, r *http.Request, a Action, status int, problem string) {
	data := s.commonData(r)
	verb := verbs[a.Do]
	data["Value"], data["Back"] = a.Value, s.resourcePath(a.Kind.Name, a.Namespace, a.Name)
	if wrong := a.checkValue(); wrong != "" {
		status, problem = http.StatusBadRequest, wrong
	} else if proposal, err := s.options.Actor.ProposeAction(r.Context(), a); err != nil {
		if problem = strings.TrimSuffix(problem, notePlanOfNow); !strings.Contains(problem, view.ErrorText(err)) {
			problem = strings.TrimSpace(problem + " " + view.ErrorText(err))
		}
		if status == http.StatusOK {
			status = statusOf(err)
		}
	} else {
		data["Proposal"] = proposal
		verb = actionLabel(a.Do, a.Value, proposal.To)
	}
	data["Verb"], data["Title"] = verb, verb+": "+a.Kind.Name+" "+a.Namespace+"/"+a.Name
	data["Problem"] = view.CleanText(problem)
	s.renderPage(w, status, "action.html", data)
}

// performAction carries out an action as it was proposed, and leads back to the resource.
func (s *Server) performAction(w http.ResponseWriter, r *http.Request) {
	a, known := parseAction(r)
	if !known {
		s.noPage(w, r)
		return
	}
	version := r.PostFormValue("version")
	if version == "" || a.checkValue() != "" {
		s.proposeAction(w, r, a, http.StatusBadRequest, "")
		return
	}
	switch err := s.performOnce(r, a, version); {
	case errors.Is(err, ErrChanged):
		s.proposeAction(w, r, a, http.StatusConflict, "The resource has changed meanwhile, and nothing was done."+notePlanOfNow)
	case errors.Is(err, ErrPartial):
		s.proposeAction(w, r, a, statusOf(err), view.ErrorText(err))
	case errors.Is(err, ErrUnclear):
		s.proposeAction(w, r, a, statusOf(err), "It is not known whether this was done: "+view.ErrorText(err)+"."+notePlanOfNow)
	case err != nil:
		s.proposeAction(w, r, a, statusOf(err), "Nothing was done: "+view.ErrorText(err))
	default:
		if secret, ok := s.sessionSecret(r); ok {
			s.sessions.leaveNote(secret, s.resourcePath(a.Kind.Name, a.Namespace, a.Name), fmt.Sprintf(noteDone, actionLabel(a.Do, a.Value, "")))
		}
		http.Redirect(w, r, s.resourcePath(a.Kind.Name, a.Namespace, a.Name), http.StatusSeeOther)
	}
}

// performOnce carries out an action, once for a form that is sent twice. A browser that sends it again does not wait for the first answer, so that one
// is carried out to its end.
func (s *Server) performOnce(r *http.Request, a Action, version string) error {
	secret, _ := s.sessionSecret(r)
	form := strings.Join([]string{r.URL.Path, a.Value, version}, "\n")
	return s.sessions.submitForm(r.Context(), secret, form, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.ActionWait)
		defer cancel()
		return s.options.Actor.PerformAction(ctx, a, version)
	})
}

// resourcePath is the path of the page of a resource.
func (s *Server) resourcePath(kind, namespace, name string) string {
	return s.pagePath(strings.ToLower(kind) + "/" + namespace + "/" + name)
}

// addActions adds the available actions to the page of a resource, or the reason why there are none.
func (s *Server) addActions(r *http.Request, data map[string]any, kind view.Kind, shown *view.Snapshot) {
	if s.options.Actor == nil {
		return
	}
	found := &shown.Resource
	data["Address"] = s.resourcePath(kind.Name, found.ObjectMeta.Namespace, found.ObjectMeta.Name)
	data["Draft"] = s.pagePath("plan") + "?" + url.Values{"of": {strings.ToLower(kind.Name) + "/" + found.ObjectMeta.Namespace + "/" + found.ObjectMeta.Name}}.Encode()
	why, _ := data["Why"].(*view.Why)
	offered := withFirst(kind, offersOf(kind, shown), why.Suggested)
	data["Offers"] = offered
	if len(offered) > 0 && offered[0].First {
		data["First"] = offered[0]
	}
	if err := s.options.Actor.CheckAllowed(r.Context(), kind, found.ObjectMeta.Namespace); err != nil {
		data["NotAllowed"] = err.Error()
		return
	}
	data["Returns"], data["Holds"] = hasAction(kind, Rollback), hasAction(kind, Hold)
}
