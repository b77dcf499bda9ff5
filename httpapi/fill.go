package httpapi

import (
	"reflect"
	"strings"
)

// filler replaces the nil lists and maps of an answer by empty ones. It skips fields with the tag nullable:"true",
// which are null, and fields with omitempty or omitzero, which are left out.
type filler func(v reflect.Value)

// fillerOf returns the filler of a type, and nil when it has nothing to fill. It is called once for every endpoint.
func fillerOf(t reflect.Type) filler { return fillerFor(t, map[reflect.Type]bool{}) }

// fillerFor is fillerOf within the types above.
func fillerFor(t reflect.Type, above map[reflect.Type]bool) filler {
	switch t.Kind() {
	case reflect.Pointer:
		inner := fillerFor(t.Elem(), above)
		if inner == nil {
			return nil
		}
		return func(v reflect.Value) {
			if !v.IsNil() {
				inner(v.Elem())
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil // bytes, json.RawMessage among them
		}
		inner := fillerFor(t.Elem(), above)
		return func(v reflect.Value) {
			if v.IsNil() {
				v.Set(reflect.MakeSlice(t, 0, 0))
				return
			}
			if inner == nil {
				return
			}
			for i := range v.Len() {
				inner(v.Index(i))
			}
		}
	case reflect.Map:
		return func(v reflect.Value) { // nil lists in values of maps stay: no answer has such
			if v.IsNil() {
				v.Set(reflect.MakeMap(t))
			}
		}
	case reflect.Struct:
		return structFiller(t, above)
	default:
		return nil
	}
}

func structFiller(t reflect.Type, above map[reflect.Type]bool) filler {
	if above[t] {
		return nil // a recursive type; no answer has one with lists
	}
	above[t] = true
	defer delete(above, t)
	type step struct {
		index int
		fill  filler
	}
	var steps []step
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() || field.Tag.Get("nullable") == "true" || strings.Contains(field.Tag.Get("json"), ",omit") {
			continue
		}
		if fill := fillerFor(field.Type, above); fill != nil {
			steps = append(steps, step{i, fill})
		}
	}
	if steps == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, s := range steps {
			s.fill(v.Field(s.index))
		}
	}
}
