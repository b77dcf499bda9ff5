package writeapi

import (
	"context"

	"ledgerline/commands"
	"ledgerline/domain/line"
	"ledgerline/httpapi"
	"ledgerline/projections"
)

// CreatePool is the request of POST /v1/pools.
type CreatePool struct {
	Body struct {
		Name     string `json:"name" maxLength:"80"`
		Rotation string `json:"rotation,omitempty" enum:"sticky,round_robin" default:"sticky"`
		Fallback
	}
}

// Fallback says when a pool sends by SMS instead. The deprecated field counts only when the other one is not given.
type Fallback struct {
	Mode httpapi.Optional[string] `json:"fallback_sms_mode,omitzero" enum:"off,not_chat,not_chat_or_failed"`
	Old  httpapi.Optional[bool]   `json:"fallback_sms,omitzero" deprecated:"true" doc:"true is not_chat, false is off; fallback_sms_mode wins"`
}

// mode returns nil when neither field is given.
func (f *Fallback) mode() *line.FallbackMode {
	var mode line.FallbackMode
	switch {
	case f.Mode.Set:
		mode = line.FallbackMode(f.Mode.Value)
	case !f.Old.Set:
		return nil
	case f.Old.Value:
		mode = line.FallbackNotChat
	default:
		mode = line.FallbackOff
	}
	return &mode
}

func (a *API) createPool(ctx context.Context, c *httpapi.Call, in *CreatePool) (httpapi.WriteResult, error) {
	create := commands.CreatePool{Name: in.Body.Name, Rotation: line.Rotation(in.Body.Rotation)}
	if mode := in.Body.mode(); mode != nil {
		create.Fallback = *mode
	}
	return result(a.app.CreatePool(ctx, request(c), create))
}

// UpdatePool is the request of PATCH /v1/pools/{id}.
type UpdatePool struct {
	httpapi.IDParam
	Body struct {
		Name     httpapi.Optional[string] `json:"name,omitzero" maxLength:"80"`
		Rotation httpapi.Optional[string] `json:"rotation,omitzero" enum:"sticky,round_robin"`
		Fallback
	}
}

func (a *API) updatePool(ctx context.Context, c *httpapi.Call, in *UpdatePool) (httpapi.WriteResult, error) {
	change := line.PoolChange{Name: in.Body.Name.Ptr(), Fallback: in.Body.mode()}
	if in.Body.Rotation.Set {
		rotation := line.Rotation(in.Body.Rotation.Value)
		change.Rotation = &rotation
	}
	return result(a.app.UpdatePool(ctx, request(c), in.ID, change))
}

func (a *API) pools() resource[projections.Pool] {
	return resource[projections.Pool]{a.store, "pool", a.store.Pool, consumers(projections.Lines)}
}
