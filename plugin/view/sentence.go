package view

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/internal/health"
	"huolala.cn/app-operator/internal/message"
)

// maxDigest is how many digits of a digest identify an image for a person.
const maxDigest = 12

// splitImage returns the repository of an image and its version: the tag, or the beginning of the digest.
func splitImage(image string) (repository, version string) {
	named, digest, _ := strings.Cut(image, "@")
	version, tagged, _ := validation.ImageTag(image)
	if repository = named; tagged {
		repository = strings.TrimSuffix(named, ":"+version)
	}
	if version == "" && digest != "" {
		_, digits, _ := strings.Cut(digest, ":")
		version = "@" + digits[:min(len(digits), maxDigest)]
	}
	return repository, version
}

// VersionOf returns the version of an image for a person: the tag, the beginning of the digest, or the name where the image has neither.
func VersionOf(image string) string {
	repository, version := splitImage(image)
	return cmp.Or(version, lastPart(repository))
}

// ShortImage returns an image without its registry and folders, such as "checkout:5.2.0".
func ShortImage(image string) string {
	repository, version := splitImage(image)
	switch {
	case version == "":
		return lastPart(repository)
	case version[0] == '@':
		return lastPart(repository) + version
	}
	return lastPart(repository) + ":" + version
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// DifferingVersions returns how two images differ, without the parts that they share: the versions, or, where these are the same, the images.
func DifferingVersions(from, to string) (before, after string) {
	before, after = VersionOf(from), VersionOf(to)
	if before == after {
		return from, to
	}
	return before, after
}

// VersionChange is the version of the row's image, after the version that serves where that is another one.
func (r *Row) VersionChange() string {
	if r.Serving == "" {
		return VersionOf(r.Image)
	}
	from, to := DifferingVersions(r.Serving, r.Image)
	return from + " → " + to
}

var (
	// callError is the error of a call to the container runtime, which repeats the image in each of its parts but the last one.
	callError = regexp.MustCompile(`rpc error: code = \w+ desc = (?:[^;]*: )?([^:;]+)`)
	// noProgress is the part about a deadline that a rollout has missed, nextSentence the end of the first sentence.
	noProgress   = regexp.MustCompile(`; no progress for \d+ s\b`)
	nextSentence = regexp.MustCompile(`\. [A-Z]`)
	// quotedImage is an image in a message.
	quotedImage = regexp.MustCompile(`image "([^"\s]+)" `)
)

// shortenMessage returns a message of a condition without the parts that a row of the resource has anyway: the workload and the container of the
// resource's name, the registry of an image, and the calls that an error went through. The message itself is on the page of the resource.
func (r *Resource) shortenMessage(message string) string {
	text := strings.TrimSuffix(message, health.AdviceStalled)
	for i := range r.Workloads {
		w := &r.Workloads[i]
		rest, found := strings.CutPrefix(text, w.Kind+" "+w.Name+": ")
		if !found {
			continue
		}
		text = rest
		if len(r.Workloads) > 1 {
			text = w.Name + ": " + rest
		}
	}
	for i := range r.Workloads {
		text = strings.ReplaceAll(text, fmt.Sprintf("container %q: ", r.Workloads[i].Name), "")
	}
	text = noProgress.ReplaceAllString(text, "")
	text = callError.ReplaceAllString(text, "$1")
	if end := nextSentence.FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	text = quotedImage.ReplaceAllStringFunc(text, func(found string) string {
		return ShortImage(quotedImage.FindStringSubmatch(found)[1]) + " "
	})
	if r.Image != "" {
		text = strings.ReplaceAll(text, r.Image, ShortImage(r.Image))
	}
	return text
}

// The causes of states that are no problem.
const (
	causeRolling  = "%d of %s run the new version"
	causeStarting = "%d of %s ready"
	causeRemoving = "%s of earlier versions to be removed"
	causeHeld     = "runs %s; the spec waits until the hold is removed"
	causeCanary   = "%s runs as a canary, %d of %s ready; the canary waits for its promotion"
	causeNoChange = "no change waits"
)

// causeText returns why the resource is in its state, in one sentence; empty for a state that needs none.
func (r *Resource) causeText(row *Row) string {
	switch pods := &r.Pods; {
	case row.State == StateUnobserved:
		return messageUnobserved
	case row.State == StateDeleting:
		return ""
	case r.Schedule != nil && (row.State == StateReady || row.State == StateRunning || row.State == StateSuspended):
		return r.Schedule.causeOf(row.State)
	case row.State == StateRolling && pods.Updated < pods.Wanted:
		return fmt.Sprintf(causeRolling, pods.Updated, message.Count(pods.Wanted, "pod"))
	case row.State == StateRolling && pods.Existing > pods.Wanted:
		return fmt.Sprintf(causeRemoving, message.Count(pods.Existing-pods.Wanted, "pod"))
	case row.State == StateRolling && !pods.Tiers:
		return fmt.Sprintf(causeStarting, pods.Ready, message.Count(pods.Wanted, "pod"))
	case row.State == StatePaused && len(row.Pending) > 0:
		return row.Pending[0]
	case row.State == StatePaused && row.Reason == appv1.ReasonPaused:
		return causeNoChange
	case row.State == StateHeld && row.Reason == appv1.ReasonHeld && row.Serving != "":
		return fmt.Sprintf(causeHeld, VersionOf(row.Serving))
	case row.State == StateCanary && r.Canary != nil:
		return fmt.Sprintf(causeCanary, VersionOf(r.Canary.Image), r.Canary.Ready, message.Count(int(r.Canary.Pods), "pod"))
	case row.State == StateZero, row.State == StateReady && row.Reason == appv1.ReasonReady:
		return ""
	}
	return r.shortenMessage(row.Message)
}
