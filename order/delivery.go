package order

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The bounds of an address, in characters.
const (
	AddressNameMax = 50
	AddressMax     = 200
	ShipmentMax    = 50 // of a carrier's name, and of a tracking number
)

// InvalidError names a field with an invalid value, and the reason.
type InvalidError struct{ Field, Reason string }

func (e InvalidError) Error() string { return "invalid " + e.Field + ": " + e.Reason }

// Address is where a parcel goes. The zero Address means that there is none.
type Address struct {
	Name    string `json:"name"`
	Phone   string `json:"phone"`
	Address string `json:"address"`
}

// addressPhone is a telephone of an address: digits, a landline with its area, 010-12345678, or a service number,
// 400-810-1234. An extension follows behind a dash.
var addressPhone = regexp.MustCompile(`^[+]?[0-9]{3,15}$|^[+]?[0-9]{5,15}-[0-9]{1,6}$|^(0[0-9]{2,3}-[0-9]{7,8}|[48]00-[0-9]{3}-[0-9]{4})(-[0-9]{1,6})?$`)

// Validate returns an InvalidError for each invalid field.
func (a Address) Validate() error {
	wrong := []error{checkText("name", a.Name, AddressNameMax), checkText("address", a.Address, AddressMax)}
	if a.Phone == "" {
		wrong = append(wrong, InvalidError{"phone", "required"})
	} else if !addressPhone.MatchString(a.Phone) {
		wrong = append(wrong, InvalidError{"phone", "digits"})
	}
	return errors.Join(wrong...)
}

// seen are the characters that are not printable and have a place in a text: a wide blank, and those by which letters
// are joined or parted (ZWJ, ZWNJ).
const seen = "\u3000\u200c\u200d"

func checkText(field, text string, most int) error {
	switch {
	case strings.TrimSpace(text) == "":
		return InvalidError{field, "required"}
	case utf8.RuneCountInString(text) > most:
		return InvalidError{field, "length"}
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(seen, r) }):
		return InvalidError{field, "form"}
	}
	return nil
}

// Delivery is what is sent for an order: the order's own copy of the address, and how it was shipped.
type Delivery struct {
	Address
	Carrier   string     `json:"carrier"`
	Tracking  string     `json:"tracking"`
	ShippedAt *time.Time `json:"shipped_at,omitempty"`
}

// AddressOf returns the address of a user's account; the zero Address if there is none.
func (s *Store) AddressOf(ctx context.Context, userID int64) (a Address, err error) {
	err = s.db.QueryRow(ctx, `
		select name, phone, address from addresses where user_id = $1 and address is not null and `+durable, userID).Scan(&a.Name, &a.Phone, &a.Address)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return a, fmt.Errorf("read the address of user %d: %w", userID, err)
	}
	return a, nil
}

// SetAddress sets the address of a user's account, which the orders that are paid from now on copy. InvalidError.
func (s *Store) SetAddress(ctx context.Context, userID int64, a Address) error {
	if err := a.Validate(); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `
		insert into addresses (user_id, name, phone, address) values ($1, $2, $3, $4)
		on     conflict (user_id) do update
		set    name = excluded.name, phone = excluded.phone, address = excluded.address, updated_at = now()`, userID, a.Name, a.Phone, a.Address)
	if err != nil {
		return fmt.Errorf("set the address of user %d: %w", userID, err)
	}
	return nil
}

// EraseAddress erases the address of a user's account, and the copies that the user's orders keep. An order that is
// paid and not shipped yet keeps its copy: without it the parcel could not be sent. It can be erased after that.
func (s *Store) EraseAddress(ctx context.Context, userID int64) error {
	batch := &pgx.Batch{} // one transaction
	batch.Queue(`update addresses set name = null, phone = null, address = null, updated_at = now() where user_id = $1 and address is not null`, userID)
	batch.Queue(`
		update deliveries d set name = null, phone = null, address = null, updated_at = now()
		from   orders o
		where  o.user_id = $1 and d.order_id = o.id and d.address is not null and (d.shipped_at is not null or o.status <> 'paid')`, userID)
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("erase the address of user %d: %w", userID, err)
	}
	return nil
}

// DeliveryOf returns the delivery of a user's order; the zero Delivery if nothing is known.
func (s *Store) DeliveryOf(ctx context.Context, userID int64, id uuid.UUID) (d Delivery, err error) {
	rows, _ := s.db.Query(ctx, `
		select coalesce(d.name, '') as name, coalesce(d.phone, '') as phone, coalesce(d.address, '') as address, d.carrier, d.tracking, d.shipped_at
		from   deliveries d join orders o on o.id = d.order_id
		where  o.id = $1 and o.user_id = $2 and `+durable, id, userID)
	d, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Delivery])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return d, fmt.Errorf("read the delivery of order %s: %w", id, err)
	}
	return d, nil
}

// SetDeliveryAddress sets the address of a user's paid order that is not shipped yet. InvalidError, ErrNotFound,
// ErrWrongStatus.
func (s *Store) SetDeliveryAddress(ctx context.Context, userID int64, id uuid.UUID, a Address) error {
	if err := a.Validate(); err != nil {
		return err
	}
	tag, err := s.db.Exec(ctx, `
		insert into deliveries (order_id, name, phone, address)
		select id, $3, $4, $5 from orders where id = $1 and user_id = $2 and status = 'paid' for share
		on     conflict (order_id) do update
		set    name = excluded.name, phone = excluded.phone, address = excluded.address, updated_at = now()
		where  deliveries.shipped_at is null`, id, userID, a.Name, a.Phone, a.Address)
	if err != nil {
		return fmt.Errorf("set the address of order %s: %w", id, err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	if _, err := s.ByID(ctx, userID, id); err != nil {
		return err
	}
	return ErrWrongStatus
}

// copyAddress copies the address of the buyer's account to an order that is paid in tx, if there is one.
func copyAddress(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	_, err := tx.Exec(ctx, `
		insert into deliveries (order_id, name, phone, address)
		select o.id, a.name, a.phone, a.address
		from   orders o join addresses a on a.user_id = o.user_id
		where  o.id = $1 and a.address is not null
		on     conflict (order_id) do nothing`, id)
	if err != nil {
		return fmt.Errorf("copy the address to order %s: %w", id, err)
	}
	return nil
}

// Ship marks a paid order shipped, and returns what carrier and tracking number were before. A second call corrects
// them. InvalidError, ErrNotFound, ErrWrongStatus.
func (s *Store) Ship(ctx context.Context, id uuid.UUID, carrier, tracking string) (was Delivery, err error) {
	if err := errors.Join(checkText("carrier", carrier, ShipmentMax),
		checkText("tracking", tracking, ShipmentMax)); err != nil {
		return was, err
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		// The lock keeps a refund, and another one who ships, away.
		var is string
		err := tx.QueryRow(ctx, `select status from orders where id = $1 for no key update`, id).Scan(&is)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("lock order %s: %w", id, err)
		}
		if is != Paid {
			return ErrWrongStatus
		}
		err = tx.QueryRow(ctx, `select carrier, tracking from deliveries where order_id = $1`, id).Scan(&was.Carrier, &was.Tracking)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("read the delivery of order %s: %w", id, err)
		}
		_, err = tx.Exec(ctx, `
			insert into deliveries (order_id, carrier, tracking, shipped_at) values ($1, $2, $3, clock_timestamp())
			on     conflict (order_id) do update
			set    carrier = excluded.carrier, tracking = excluded.tracking, shipped_at = coalesce(deliveries.shipped_at, excluded.shipped_at), updated_at = now()`,
			id, carrier, tracking)
		if err != nil {
			return fmt.Errorf("ship order %s: %w", id, err)
		}
		return nil
	})
	return was, err
}
