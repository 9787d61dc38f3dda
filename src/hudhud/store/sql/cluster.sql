-- Run once by postgres --single in a new cluster of the embedded server: one statement a line.
create role hudhud login;
create database hudhud owner hudhud;
