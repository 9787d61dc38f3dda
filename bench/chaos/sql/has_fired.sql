-- Whether an order was carried out.
select last_value >= %(ticket)s from chaos.fired;
