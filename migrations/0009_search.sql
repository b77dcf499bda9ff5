-- Search: contacts are searched by trigrams. The extension comes with PostgreSQL (in Debian's main package, elsewhere in
-- postgresql-contrib) and is trusted: any user who may create objects in the database may create it.

-- +goose Up

create extension if not exists pg_trgm;
