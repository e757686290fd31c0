"""The sample shop's data agree with each other."""

from decimal import Decimal

import pytest

from examples.support_desk.data import generate
from examples.support_desk.desk.directory import Directory
from examples.support_desk.desk.store import DATA, RowNotFoundError, ShopStore


@pytest.fixture(scope="module")
def shop():
    return ShopStore.load().tables


def test_the_shipped_files_are_what_the_seed_makes(tmp_path):
    """Generating the shop again writes the same bytes."""
    generate.write(generate.build(), tmp_path)
    names = [path.name for path in sorted(tmp_path.iterdir())]
    assert len(names) == 5
    for name in names:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


def test_there_are_hundreds_of_rows(shop):
    """The data set is of a realistic size."""
    assert len(shop.customers) == 100
    assert len(shop.orders) == len(shop.payments) == 360
    assert len(shop.tickets) == 180


def test_every_reference_leads_to_a_row(shop):
    """No order, payment or ticket points at something that is not there."""
    for order in shop.orders.values():
        assert order.customer_id in shop.customers
        assert order.sku in shop.products
    for payment in shop.payments.values():
        assert payment.order_id in shop.orders
    for ticket in shop.tickets.values():
        assert shop.orders[ticket.order_id].customer_id == ticket.customer_id


def test_every_order_is_paid_once_and_exactly(shop):
    """Totals are price times quantity, and each order has one payment of its total."""
    for order in shop.orders.values():
        assert order.total == shop.products[order.sku].price * order.quantity
        assert shop.payment_of(order.id).amount == order.total
    assert len({payment.order_id for payment in shop.payments.values()}) == len(shop.orders)


def test_no_payment_starts_refunded(shop):
    """The replay starts from a shop in which nothing was given back."""
    assert {payment.refunded for payment in shop.payments.values()} == {Decimal("0.00")}


def test_addresses_are_reserved_samples(shop):
    """E-mail addresses and phone numbers belong to nobody."""
    for customer in shop.customers.values():
        assert customer.email.endswith("@example.com")
        assert customer.phone.startswith("+1 555 01")


def test_the_directory_knows_people_and_machines():
    """Actors of several kinds exist, each with its own id."""
    actors = Directory.load().actors()
    assert {actor.kind for actor in actors} == {"user", "service", "automation"}
    assert len({actor.id for actor in actors}) == len(actors)


def test_a_transaction_that_fails_changes_nothing():
    """A draft becomes current only when its block ends well."""
    store = ShopStore.load()
    before = store.tables

    def half_a_change():
        with store.transaction() as draft:
            del draft.orders["ord_0001"]
            return draft.customers["cus_999"]

    with pytest.raises(RowNotFoundError):
        half_a_change()
    assert store.tables is before
    assert "ord_0001" in store.tables.orders


def test_a_transaction_that_ends_well_is_seen_at_once():
    """Readers get the new state; the old one is left as it was."""
    store = ShopStore.load()
    before = store.tables
    with store.transaction() as draft:
        del draft.orders["ord_0001"]
    assert "ord_0001" not in store.tables.orders
    assert "ord_0001" in before.orders
