package webhooks

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Any pod can send a review with any content to the webhooks' port, so one table decides what an answer discloses of the cluster, and what
// it costs. A request proves that it comes from the API server, for a client that can read the resource, by the UID of the resource in the
// cache. An update has the UID, and a creation cannot have it.

// source is where the data of an answer comes from, beyond the request.
type source int

const (
	fromCache source = iota
	fromServer
)

// disclosure is how much of an answer a request gets.
type disclosure int

const (
	// nothing also means that nothing is read.
	nothing disclosure = iota
	// general is an answer without names, numbers and fields of objects that the request does not state itself.
	general
	full
)

// topic is the subject of an answer.
type topic int

// The answers that depend on more than the request.
const (
	topicTaken topic = iota
	topicAdoption
	topicScale
	topicHost
	topicAutoscaler
	topicAutoscalingRemoved
	topicIgnoredReplicas
	topicUnstatedReplicas
	topicScaleOwner
	topicPodSecurity
	topicChangePlan
	topicCreationPlan
	topicDefaults
	topicDefaultsPlan
	topicCount
)

// answer is a row of the table.
type answer struct {
	name string
	// reads is the source of the answer's data.
	reads source
	// unproven is the disclosure to a request without proof, within the rates of limits; learns describes what the disclosure reveals of
	// the cluster.
	unproven disclosure
	learns   string
}

// answers is the table. ADR 56 has the reasons.
var answers = [topicCount]answer{
	topicTaken: {"name is taken", fromCache, general,
		"whether a Deployment, StatefulSet, Service or object around the pods of a stated name exists, and whether it has an owner"},
	topicAdoption:           {"adoption", fromCache, general, "whether an object of a stated name exists and has no owner"},
	topicScale:              {"unreadable scale", fromCache, general, "whether an autoscaler targets a stated resource"},
	topicHost:               {"shared host", fromCache, general, "whether another resource of the namespace serves a stated host and path"},
	topicAutoscaler:         {"other autoscaler", fromCache, general, "whether an autoscaler targets a stated Deployment"},
	topicAutoscalingRemoved: {"autoscaling is removed", fromCache, nothing, ""},
	topicIgnoredReplicas:    {"ignored replicas", fromCache, nothing, ""},
	topicUnstatedReplicas:   {"unstated replicas", fromCache, general, "whether a Deployment of a stated name exists"},
	topicScaleOwner:         {"owner of the scale", fromCache, general, "whether something else scales a stated Deployment"},
	topicPodSecurity:        {"pod security", fromServer, full, "which Pod Security Standard a stated namespace enforces"},
	topicChangePlan:         {"plan of a change", fromServer, nothing, ""},
	topicCreationPlan: {"plan of a creation", fromCache, general,
		"as for a taken name, and which kinds around the pods the cluster has"},
	topicDefaults: {"AppDefaults", fromCache, full,
		"which sizes count for a stated namespace, which fields of its AppDefaults do not go with stated fields, and the default budget and profile, and " +
			"whether there are a default autoscaler, size or resources, as far as a warning about stated fields depends on them"},
	topicDefaultsPlan: {"plan of AppDefaults", fromCache, nothing, ""},
}

// asker is the client of a review, as far as the review proves it.
type asker struct {
	proven bool
	// mayLook and mayAsk report whether the rates allow a request without proof to have the cache and the API server read. A request
	// counts once for each; one beyond the rate of its namespace takes nothing of the common rate.
	mayLook, mayAsk func() bool
}

// askerOf returns the asker of a review. old is nil for a creation.
func (v *validator[T]) askerOf(ctx context.Context, obj, old client.Object) *asker {
	return v.newAsker(ctx, obj.GetNamespace(), old != nil && v.isProven(ctx, obj, old))
}

// newAsker returns the asker of a review of a namespace.
func (s *validators) newAsker(ctx context.Context, namespace string, proven bool) *asker {
	of := s.limits.shareOf(ctx)
	return &asker{
		proven:  proven,
		mayLook: sync.OnceValue(func() bool { return of.looks.tryTurn(namespace) && of.allLooks.tryTurn("") }),
		mayAsk:  sync.OnceValue(func() bool { return of.asks.tryTurn(namespace) && of.allAsks.tryTurn("") }),
	}
}

// grantAnswer returns how much of an answer the asker gets. Nothing is read for an answer before grantAnswer has allowed it.
func (a *asker) grantAnswer(about topic) disclosure {
	row := &answers[about]
	switch {
	case a.proven:
		return full
	case row.unproven == nothing:
		return nothing
	case row.reads == fromServer && !a.mayAsk(), row.reads == fromCache && !a.mayLook():
		return nothing
	}
	return row.unproven
}
